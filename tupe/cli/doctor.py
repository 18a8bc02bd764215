"""Examines this machine: versions, imports, the attention backends, a training step. A line for each.

Ends with status 1 if something does not work.
"""

import argparse
import sys


def add_arguments(parser: argparse.ArgumentParser) -> None:
    pass


def run(args: argparse.Namespace) -> None:
    from tupe.doctor.examine import examine

    if not examine():
        sys.exit(1)
