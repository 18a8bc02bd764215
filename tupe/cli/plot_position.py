"""Draws the learnt position correlation of every head of a checkpoint.

Example: tupe plot-position checkpoints/tupe_base/checkpoint_last.pt --output position.png
"""

from __future__ import annotations

import argparse

from tupe.cli._checkpoint import add_checkpoint


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the checkpoint, the picture and the number of positions."""
    add_checkpoint(parser, "a checkpoint of this plugin")
    parser.add_argument("--length", type=int, metavar="N", help="number of positions (default: all the model has)")


def run(args: argparse.Namespace) -> None:
    """Draws the picture and prints where it is."""
    from tupe.analysis.checkpoint import open_encoder
    from tupe.analysis.position import plot_position, position_correlation

    plot_position(position_correlation(open_encoder(args.checkpoint, args.name), args.length), args.output)
    print(f"position correlation: {args.output}")
