"""Turns a checkpoint of the TUPE authors' release into one that --restore-file takes.

Example: tupe convert-release tupe_ckp/checkpoint.pt checkpoints/tupe_r.pt
Both TUPE-A and TUPE-R, pre- or post-norm. The file is read without running any code that it may carry.
"""

import argparse
import shlex
from pathlib import Path

from tupe.util import check_new


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", type=Path, metavar="IN", help="checkpoint that the authors' code wrote")
    parser.add_argument("target", type=Path, metavar="OUT", help="file to write, a new one")


def run(args: argparse.Namespace) -> None:
    from tupe.checkpoints.release import convert_release

    check_new(args.target)
    convert_release(args.source, args.target)
    print(f"wrote {args.target}; fine-tune it with: tupe finetune TASK {shlex.quote(str(args.target))} DATA")
