"""TUPE: untied position encodings, and the baselines of the papers, as a fairseq plugin.

This file imports nothing of PyTorch or fairseq, so that `tupe.position` and `tupe.attention` work in any PyTorch code.
Given `--user-dir`, fairseq imports every file of `tupe.tasks` and `tupe.models`, which register the whole
plugin.
"""

__version__ = "0.2.0.dev0"
