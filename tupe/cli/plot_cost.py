"""Draws the time that each model measured by benchmarks/model.py takes, over the first one's.

Example: python benchmarks/model.py --rivals bert_a shaw tupe_r --output results
         tupe plot-cost results/model.json --output cost.png
"""

from __future__ import annotations

import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the measurements and the picture."""
    parser.add_argument("measured", help="model.json, written by benchmarks/model.py --output")
    parser.add_argument("--output", required=True, metavar="FILE", help="file of the picture: .png, .pdf, .svg, ...")


def run(args: argparse.Namespace) -> None:
    """Draws the picture and prints where it is."""
    from tupe.analysis.cost import plot_costs, read_costs

    plot_costs(*read_costs(args.measured), args.output)
    print(f"cost: {args.output}")
