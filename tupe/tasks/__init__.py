"""The fairseq tasks. Importing this package registers the whole plugin, as fairseq does on `--user-dir`."""

import tupe.plugin  # noqa: F401
