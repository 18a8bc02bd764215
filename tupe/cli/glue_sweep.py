"""The same as `tupe sweep glue`.

Example: tupe glue-sweep --tasks CoLA,RTE checkpoints/tupe_base/checkpoint_last.pt data/glue runs/glue/tupe_base
"""

from __future__ import annotations

import argparse

from tupe.cli import sweep


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds those of `tupe sweep`, without the benchmark."""
    parser.set_defaults(benchmark="glue")
    sweep.add_grid(parser)


def run(args: argparse.Namespace) -> None:
    """As `tupe sweep`."""
    sweep.run(args)
