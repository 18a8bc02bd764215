"""Corrections of fairseq 0.12.3.1 on today's Python and PyTorch; `install.py` lists them.

Importing this package changes nothing outside a command of fairseq or of `tupe`.
"""

import sys

from tupe.patches import install

if not sys.modules.keys().isdisjoint({"fairseq_cli", "tupe.cli"}):
    install.install()
