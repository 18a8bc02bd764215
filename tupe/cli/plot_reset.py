"""Draws the position correlation of one head of a checkpoint without the [CLS] reset and with it.

Example: tupe plot-reset checkpoints/tupe_base/checkpoint_last.pt --head 3 --output reset.png
"""

from __future__ import annotations

import argparse

from tupe.cli._checkpoint import add_checkpoint


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the checkpoint, the head and the picture."""
    add_checkpoint(parser, "of a model with a reset")
    parser.add_argument("--head", type=int, default=1, metavar="N", help="which one, from 1 (default: %(default)s)")
    parser.add_argument("--length", type=int, metavar="N", help="number of positions (default: all the model has)")


def run(args: argparse.Namespace) -> None:
    """Draws the picture and prints where it is."""
    from tupe.analysis.checkpoint import open_encoder
    from tupe.analysis.position import plot_reset, position_correlation

    plot_reset(position_correlation(open_encoder(args.checkpoint, args.name), args.length), args.head, args.output)
    print(f"reset: {args.output}")
