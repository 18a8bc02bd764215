"""Draws the losses of one run or several against updates, from their logs (common.log_format=json).

Example: tupe plot-training TUPE-R=runs/tupe/hydra_train.log BERT-A=runs/bert/hydra_train.log --output curves.png
"""

from __future__ import annotations

import argparse

from tupe.errors import UserError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the logs and the picture."""
    parser.add_argument("logs", nargs="+", metavar="[LABEL=]LOG", help="fairseq's log; the label defaults to the path")
    parser.add_argument("--output", required=True, metavar="FILE", help="file of the picture: .png, .pdf, .svg, ...")
    parser.add_argument("--title", default="Training", help="default: %(default)s")


def run(args: argparse.Namespace) -> None:
    """Draws the picture and prints where it is."""
    from tupe.analysis.curves import plot_training, read_log

    logs = {}
    for argument in args.logs:
        label, _, path = argument.rpartition("=")
        label = label or path
        if label in logs:
            raise UserError(f"two logs are labelled {label}: give each its own, as in LABEL=LOG.")
        logs[label] = read_log(path)
    plot_training(logs, args.output, args.title)
    print(f"curves: {args.output}")
