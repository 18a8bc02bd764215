"""The place of `tupe.safe_load` before version 0.2.0; its names are still imported from here."""

from tupe.safe_load import fairseq_globals, safe_load

__all__ = ["fairseq_globals", "safe_load"]
