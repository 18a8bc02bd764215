"""Draws the rank of the logits of one checkpoint or several, layer by layer, and says that of their position terms.

Example: tupe plot-ranks BERT-A=bert_a_base/checkpoint_last.pt DIET-ABS=diet_abs_base/checkpoint_last.pt \\
             --data DATA --output ranks.png
"""

from __future__ import annotations

import argparse

from tupe.cli._labels import check_names, split_label
from tupe.cli._text import add_text


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the checkpoints, the text and the picture."""
    parser.add_argument("checkpoints", nargs="+", metavar="[LABEL=]CHECKPOINT", help="the label defaults to the model")
    add_text(parser)
    parser.add_argument("--output", required=True, metavar="FILE", help="file of the picture: .png, .pdf, .svg, ...")


def run(args: argparse.Namespace) -> None:
    """Draws the picture and prints where it is."""
    from tupe.analysis.checkpoint import open_encoder
    from tupe.analysis.logits import logit_ranks, plot_ranks
    from tupe.analysis.text import read_tokens

    encoders = [open_encoder(path, label) for label, path in map(split_label, args.checkpoints)]
    names = [encoder.shown_as for encoder in encoders]
    check_names(names)
    texts = [read_tokens(encoder, args.data, args.length, args.sequences, args.text) for encoder in encoders]
    ranks = {name: logit_ranks(encoder, text) for name, encoder, text in zip(names, encoders, texts)}
    plot_ranks(ranks, texts[0].shape[1], args.output)
    print(f"ranks: {args.output}")
