"""The fairseq models. Importing this package registers the whole plugin, as fairseq does on `--user-dir`."""

import tupe.plugin  # noqa: F401
from tupe.models.electra import ElectraModel
from tupe.models.tupe import TupeModel

__all__ = ["ElectraModel", "TupeModel"]
