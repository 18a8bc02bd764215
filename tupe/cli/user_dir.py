"""Prints the folder that fairseq's --user-dir takes: this package, or the one that TUPE_USER_DIR names.

Example: fairseq-train --user-dir "$(tupe user-dir)" --arch tupe_base ...
"""

import argparse

from tupe.util import user_dir


def add_arguments(parser: argparse.ArgumentParser) -> None:
    pass


def run(args: argparse.Namespace) -> None:
    print(user_dir())
