"""What fairseq 0.12.3.1 gets wrong on today's Python and PyTorch: a list, in `install.py`.

Importing this package changes nothing outside a command of fairseq or of `tupe`.
"""

import sys

from tupe.patches import install

if not sys.modules.keys().isdisjoint({"fairseq_cli", "tupe.cli"}):
    install.install()
