"""Draws the cosine similarity of the position vectors of a checkpoint.

Example: tupe plot-similarity checkpoints/bert_a_base/checkpoint_last.pt --output similarity.png
"""

from __future__ import annotations

import argparse

from tupe.cli._checkpoint import add_checkpoint


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the checkpoint and the picture."""
    add_checkpoint(parser, "of a model with position vectors, at the input or untied")


def run(args: argparse.Namespace) -> None:
    """Draws the picture and prints where it is."""
    from tupe.analysis.checkpoint import open_encoder
    from tupe.analysis.similarity import plot_similarity, position_similarity

    plot_similarity(position_similarity(open_encoder(args.checkpoint, args.name)), args.output)
    print(f"similarity of positions: {args.output}")
