"""Draws what every head of a checkpoint adds between the segments of a sentence pair.

Example: tupe plot-segments checkpoints/diet_rel_base/checkpoint_last.pt --output segments.png
"""

from __future__ import annotations

import argparse

from tupe.cli._checkpoint import add_checkpoint


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the checkpoint and the picture."""
    add_checkpoint(parser, "of a model with segments in the attention")


def run(args: argparse.Namespace) -> None:
    """Draws the picture and prints where it is."""
    from tupe.analysis.checkpoint import open_encoder
    from tupe.analysis.segments import plot_segments, segment_values

    plot_segments(segment_values(open_encoder(args.checkpoint, args.name)), args.output)
    print(f"segment attention: {args.output}")
