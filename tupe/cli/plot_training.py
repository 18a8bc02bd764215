"""Draws loss and learning rate of one run or several, against updates and against hours, from fairseq's logs.

Example: tupe plot-training TUPE-R=checkpoints/tupe_base BERT-A=checkpoints/bert_a_base --output curves.png
"""

from __future__ import annotations

import argparse
from pathlib import Path

from tupe.errors import UserError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the runs and the picture."""
    add = parser.add_argument
    add("runs", nargs="+", metavar="[LABEL=]RUN", help="folder of a run, or its log; the label defaults to the path")
    add("--output", required=True, metavar="FILE", help="file of the picture: .png, .pdf, .svg, ...")
    add("--title", default="Training", help="default: %(default)s")


def run(args: argparse.Namespace) -> None:
    """Draws the picture and prints where it is."""
    from tupe.analysis.curves import plot_training, read_log

    logs = {}
    for argument in args.runs:
        plain = "=" not in argument or Path(argument).exists()
        label, path = ("", argument) if plain else argument.split("=", 1)
        label = label or path
        if label in logs:
            raise UserError(f"two runs are labelled {label}: give each its own, as in LABEL=RUN.")
        logs[label] = read_log(path)
    plot_training(logs, args.output, args.title)
    print(f"curves: {args.output}")
