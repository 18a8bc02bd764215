"""Draws one of the papers' figures: of checkpoints, or of the logs of runs.

Examples: tupe plot position checkpoints/tupe_base/checkpoint_last.pt --output position.png
          tupe plot ranks TUPE-R=tupe.pt DIET-ABS=diet.pt --data DATA --output ranks.pdf
          tupe plot training TUPE-R=checkpoints/tupe_base BERT-A=checkpoints/bert_a_base --output curves.svg
docs/figures.md shows them, and says which systems have which.
"""

import argparse
from pathlib import Path

from tupe.cli._labels import open_encoders, read_runs, split_label
from tupe.cli._text import add_text
from tupe.util import UserError, check_new

#: What is drawn, and of what.
FIGURES = {
    "position": "position correlation of every head of a CHECKPOINT",
    "reset": "every head of a CHECKPOINT, or --head, before the reset of [CLS] and after it",
    "similarity": "cosine similarity of the position vectors of a CHECKPOINT",
    "segments": "what every head of a CHECKPOINT adds between segments",
    "correlations": "words and positions in the first layer of a CHECKPOINT, on --data",
    "ranks": "rank of the logits in each layer of CHECKPOINTS, on --data",
    "training": "loss and learning rate of RUNS",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = "figures:\n" + "\n".join(f"  {name:<14}{shows}" for name, shows in FIGURES.items())
    add = parser.add_argument
    add("figure", choices=FIGURES, metavar="FIGURE", help="one of those below")
    help_ = "checkpoint, folder of a run, or its log"
    add("paths", nargs="+", metavar="[LABEL=]PATH", type=split_label, help=help_)
    add("--output", type=Path, required=True, metavar="FILE", help="file of the picture: .png, .pdf, .svg, ...")
    add("--head", type=int, metavar="N", help="reset: which head, from 1 (default: all)")
    help_ = "training: a run; say when the others reach the validation loss that it ends with"
    add("--against", metavar="LABEL", help=help_)
    add("--title", default="Training", help="training: stands above the figure")
    add("--length", type=int, metavar="N", help="positions (default: all, or 128 of a text)")
    add_text(parser, of="correlations, ranks")


def run(args: argparse.Namespace) -> None:
    from tupe.analysis.curves import plot_training
    from tupe.analysis.figure import heat_maps, save_figure
    from tupe.analysis.logits import logit_ranks, plot_ranks
    from tupe.analysis.page import FIGURES as MAPS
    from tupe.analysis.text import read_tokens

    check_new(args.output)
    if args.figure == "training":
        figure = plot_training(read_runs(args.paths), args.title, args.against)
    else:
        encoders, texts = open_encoders(args.paths), [None]
        if args.figure in ("correlations", "ranks"):
            length, sequences = args.length or 128, args.sequences or 8
            texts = [read_tokens(encoder, args.data, length, sequences, args.text) for encoder in encoders]
        if args.figure == "ranks":
            ranks = {encoder.shown_as: logit_ranks(encoder, tokens) for encoder, tokens in zip(encoders, texts)}
            figure = plot_ranks(ranks, texts[0].shape[1])
        else:
            [encoder] = encoders
            if not MAPS[args.figure].has(encoder.args):
                raise UserError(f"{encoder.shown_as} has no such figure. docs/figures.md lists the systems that have.")
            maps = MAPS[args.figure].maps(encoder, args.length, texts[0])
            if args.head:
                pair = slice(2 * args.head - 2, 2 * args.head)
                maps = maps._replace(values=maps.values[pair], names=maps.names[pair])
            figure = heat_maps(maps)
    save_figure(figure, args.output)
    print(f"{args.figure}: {args.output}")
