"""Writes the mean of several checkpoints of a run as one checkpoint, without the optimizer.

Example: tupe average-checkpoints checkpoints/run/average.pt checkpoints/run --last 10
"""

import argparse
from pathlib import Path

from tupe.util import check_new


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("out", type=Path, metavar="OUT", help="file to write, a new one")
    add("checkpoints", type=Path, metavar="CHECKPOINT", nargs="+", help="files, or with --last a run's folder")
    add("--last", type=int, metavar="K", help="take the folder's last K by updates, or else by epochs")


def run(args: argparse.Namespace) -> None:
    from tupe.checkpoints.edit import average, last_checkpoints
    from tupe.checkpoints.load import write_state

    check_new(args.out)
    paths = args.checkpoints
    if args.last is not None:
        paths = last_checkpoints(paths[0], args.last)
    write_state(args.out, average(paths))
    print(f"average of {', '.join(path.name for path in paths)}: {args.out}")
