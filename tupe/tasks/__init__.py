"""The fairseq tasks; importing this registers everything that the plugin has (fairseq does it on `--user-dir`)."""

import tupe.plugin  # noqa: F401
