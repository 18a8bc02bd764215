"""Arguments of the commands that show a model on a text."""

import argparse
from pathlib import Path


def add_text(parser: argparse.ArgumentParser, of: str) -> None:
    """Add the corpus, the text, and the number of sequences; `of` says which outputs need them."""
    add = parser.add_argument
    add("--data", type=Path, help=f"{of}: folder of the corpus, for its vocabulary and its held-out text")
    add("--text", type=Path, metavar="FILE", help=f"{of}: a file of text, in place of the held-out one")
    add("--sequences", type=int, metavar="N", help=f"{of}: at most (default: 8)")
