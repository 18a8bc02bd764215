"""Draws loss and learning rate of one run or several, against updates and against hours, from fairseq's logs.

Example: tupe plot-training TUPE-R=checkpoints/tupe_base BERT-A=checkpoints/bert_a_base --output curves.png
"""

from __future__ import annotations

import argparse

from tupe.cli._labels import check_names, split_label
from tupe.errors import UserError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the runs and the picture."""
    add = parser.add_argument
    add("runs", nargs="+", metavar="[LABEL=]RUN", help="folder of a run, or its log; the label defaults to the path")
    add("--output", required=True, metavar="FILE", help="file of the picture: .png, .pdf, .svg, ...")
    add("--against", metavar="LABEL", help="a run: say when the others reach the validation loss that it ends with")
    add("--title", default="Training", help="default: %(default)s")


def run(args: argparse.Namespace) -> None:
    """Draws the picture and prints where it is."""
    from tupe.analysis.curves import plot_training, read_log

    runs = [(label or str(path), read_log(path)) for label, path in map(split_label, args.runs)]
    check_names([name for name, _ in runs])
    if args.against not in (None, *dict(runs)):
        raise UserError(f"there is no run '{args.against}': --against takes one of {', '.join(dict(runs))}.")
    plot_training(dict(runs), args.output, args.title, args.against)
    print(f"curves: {args.output}")
