"""Draws the cosine similarity of the position vectors of a checkpoint.

Example: tupe plot-similarity checkpoints/bert_a_base/checkpoint_last.pt --output similarity.png
"""

from __future__ import annotations

import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the checkpoint and the picture."""
    parser.add_argument("checkpoint", help="of a model with position vectors, at the input or untied")
    parser.add_argument("--output", required=True, metavar="FILE", help="file of the picture: .png, .pdf, .svg, ...")


def run(args: argparse.Namespace) -> None:
    """Draws the picture and prints where it is."""
    from tupe.analysis.similarity import plot_similarity, position_similarity

    plot_similarity(position_similarity(args.checkpoint), args.output)
    print(f"similarity of positions: {args.output}")
