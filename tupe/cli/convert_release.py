"""Turns a checkpoint of the TUPE authors' release into one that --restore-file takes.

Example: tupe convert-release tupe_ckp/checkpoint.pt checkpoints/tupe_r.pt
Both TUPE-A and TUPE-R, pre- or post-norm. The file is read without running any code that it may carry.
"""

from __future__ import annotations

import argparse
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", metavar="IN", help="checkpoint that the authors' code wrote")
    parser.add_argument("target", type=Path, metavar="OUT", help="file to write, a new one")


def run(args: argparse.Namespace) -> None:
    """Converts, and says how to use the result."""
    from tupe.files import check_new

    check_new(args.target)
    from tupe.checkpoints.release import convert_release

    convert_release(args.source, args.target)
    print(f"wrote {args.target}; fine-tune it with: bash scripts/finetune_glue.sh TASK {args.target} DATA")
