"""Draws the score against the updates of pre-training, from the sweeps of several checkpoints (`tupe sweep`).

Sweeps of the same label are one line, by default those of one model.
Example: tupe plot-scores TUPE-R=runs/glue/tupe_300k TUPE-R=runs/glue/tupe_1M BERT-A=runs/glue/bert_a_1M --output s.pdf
"""

from __future__ import annotations

import argparse

from tupe.cli._labels import split_label


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the sweeps, the score and the picture."""
    add = parser.add_argument
    add("sweeps", nargs="+", metavar="[LABEL=]OUT", help="folder of a sweep; the label defaults to its model")
    add("--column", default="", metavar="NAME", help="of the table, such as MNLI-m (default: the papers' average)")
    add("--title", default="", help="stands above it")
    add("--output", required=True, metavar="FILE", help="file of the picture: .png, .pdf, .svg, ...")


def run(args: argparse.Namespace) -> None:
    """Draws the picture and prints where it is."""
    from tupe.analysis.scores import plot_scores
    from tupe.finetuning.scores import score_curves
    from tupe.finetuning.table import by_label

    plot_scores(score_curves(by_label(map(split_label, args.sweeps)), args.column), args.output, args.title)
    print(f"scores: {args.output}")
