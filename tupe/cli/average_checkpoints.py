"""Writes the mean of several checkpoints of a run as one checkpoint, without the optimizer.

Example: tupe average-checkpoints checkpoints/run/average.pt checkpoints/run --last 10
"""

import argparse
from pathlib import Path

from tupe.cli._types import new_file, whole
from tupe.errors import UserError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("out", type=new_file, metavar="OUT", help="file to write, a new one")
    add("checkpoints", type=Path, metavar="CHECKPOINT", nargs="+", help="files, or with --last a run's folder")
    add("--last", type=whole(1), metavar="K", help="take the folder's last K by updates, or else by epochs")


def run(args: argparse.Namespace) -> None:
    from tupe.checkpoints.average import average, last_checkpoints
    from tupe.checkpoints.fairseq_checkpoint import write_state

    paths = args.checkpoints
    if args.last is not None:
        if len(paths) != 1 or not paths[0].is_dir():
            raise UserError("--last takes the checkpoints of one folder: give the folder of a run")
        paths = last_checkpoints(paths[0], args.last)
    elif len({path.resolve() for path in paths}) < len(paths):
        raise UserError(f"a checkpoint is named twice ({', '.join(map(str, paths))}): name each once")
    write_state(args.out, average(paths))
    print(f"average of {', '.join(path.name for path in paths)}: {args.out}")
