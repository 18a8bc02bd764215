"""Draws what the logits of a checkpoint's first layer are the sum of: words and positions, to each other.

Example: tupe plot-correlations checkpoints/bert_a_base/checkpoint_last.pt --data DATA --output correlations.png
"""

from __future__ import annotations

import argparse
from pathlib import Path

from tupe.cli._checkpoint import add_checkpoint
from tupe.cli._text import add_text


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the checkpoint, the text and the picture."""
    add_checkpoint(parser, "a checkpoint of this plugin")
    add_text(parser)


def run(args: argparse.Namespace) -> None:
    """Draws the picture and prints where it is."""
    from tupe.analysis.checkpoint import open_encoder
    from tupe.analysis.logits import first_layer_correlations, plot_correlations
    from tupe.analysis.position import has_reset
    from tupe.analysis.text import read_tokens

    encoder = open_encoder(args.checkpoint, args.name)
    tokens = read_tokens(encoder, args.data, args.length, args.sequences, args.text)
    title = f"Correlations in the first layer of {encoder.shown_as}, {len(tokens)} sequences"
    parts = first_layer_correlations(encoder, tokens)
    plot_correlations(parts, title, Path(args.output), has_reset(encoder.args))
    print(f"correlations: {args.output}")
