"""Examines this machine: the installation, GPUs, attention kernels, a training step. A line for each finding.

Without a GPU it takes some seconds. With GPUs it compares the attention kernels with float64 and leaves a record, by
which `--attention-backend auto` uses them. Ends with status 1 if something does not work.
"""

import argparse
import contextlib
from pathlib import Path

from tupe.util import UserError, atomic


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all findings to FILE, for a bug report")
    parser.add_argument("--full", action="store_true", help="longer sequences and more repeats, some minutes")


def run(args: argparse.Namespace) -> None:
    from tupe.doctor.examine import examine

    with contextlib.nullcontext() if args.json is None else atomic(args.json) as file:  # a wrong name is said at once
        well = examine(args.full, file, lambda line: print(line, flush=True))
    if not well:
        raise UserError("something does not work on this machine: the lines that begin with failed say what to do.")
