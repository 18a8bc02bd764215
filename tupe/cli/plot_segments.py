"""Draws what every head of a checkpoint adds between the segments of a sentence pair.

Example: tupe plot-segments checkpoints/diet_rel_base/checkpoint_last.pt --output segments.png
"""

from __future__ import annotations

import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the checkpoint and the picture."""
    parser.add_argument("checkpoint", help="of a model with segments in the attention")
    parser.add_argument("--output", required=True, metavar="FILE", help="file of the picture: .png, .pdf, .svg, ...")


def run(args: argparse.Namespace) -> None:
    """Draws the picture and prints where it is."""
    from tupe.analysis.segments import plot_segments, segment_values

    plot_segments(segment_values(args.checkpoint), args.output)
    print(f"segment attention: {args.output}")
