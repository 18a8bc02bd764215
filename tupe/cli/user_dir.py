"""Prints the folder that fairseq's --user-dir takes.

Example: fairseq-train --user-dir "$(tupe user-dir)" --arch tupe_base ...
"""

from __future__ import annotations

import argparse
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds nothing: the command takes no arguments."""


def run(args: argparse.Namespace) -> None:
    """Prints the absolute path of the installed package."""
    print(Path(__file__).resolve().parents[1])
