"""The fairseq models; importing this registers everything that the plugin has (fairseq does it on `--user-dir`)."""

import tupe.plugin  # noqa: F401
from tupe.models.electra import ElectraModel
from tupe.models.tupe import TupeModel

__all__ = ["ElectraModel", "TupeModel"]
