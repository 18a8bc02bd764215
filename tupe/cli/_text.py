"""Arguments of the commands that show a model on a text."""

from __future__ import annotations

import argparse
from pathlib import Path


def add_text(parser: argparse.ArgumentParser, required: bool = True) -> None:
    """Adds the corpus, the text, and how much of it."""
    add = parser.add_argument
    add("--data", type=Path, required=required, help="folder of the corpus, for its vocabulary and its held-out text")
    add("--text", type=Path, metavar="FILE", help="a file of text, in place of the held-out one")
    add("--length", type=int, default=128, metavar="N", help="tokens of a sequence; positions (default: %(default)s)")
    add("--sequences", type=int, default=8, metavar="N", help="at most (default: %(default)s)")
