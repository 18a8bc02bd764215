"""Prints the folder that fairseq's --user-dir takes: this package, or the one that TUPE_USER_DIR names.

Example: fairseq-train --user-dir "$(tupe user-dir)" --arch tupe_base ...
"""

from __future__ import annotations

import argparse

from tupe.user_dir import user_dir


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds nothing: the command takes no arguments."""


def run(args: argparse.Namespace) -> None:
    """Prints its absolute path."""
    print(user_dir())
