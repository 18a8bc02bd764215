"""Prints what a pre-training run will be, and refuses what cannot work; scripts/pretrain.sh begins with it.

Example: tupe pretraining-plan --nodes 2 --gpus 8 --gpu h100 configs/pretraining base task.data=DATA \\
             optimization.update_freq=[1]
"""

from __future__ import annotations

import argparse
from pathlib import Path

from tupe.cli import _plan


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the machines, the kind of their GPUs and the configuration."""
    add = parser.add_argument
    add("--gpu", metavar="KIND", help="such as h100 or a100: the plan then says hours")
    add("--mfu", type=float, default=0.4, help="share of the GPUs' 16-bit peak that is used (default: %(default)s)")
    add("--measured", type=Path, metavar="FILE", help="model.json of benchmarks/model.py: hours by its tokens a second")
    _plan.add_arguments(parser)


def run(args: argparse.Namespace) -> None:
    """Prints the plan; with --start, becomes the training."""
    from tupe.pretraining import made_of, plan

    hours = {"gpu": args.gpu, "mfu": args.mfu}
    if args.measured is not None:
        from tupe.analysis.cost import read_costs

        hours["measured"] = read_costs(args.measured)
    _plan.say_and_start(args, "scripts/pretrain.sh", plan, made_of, **hours)
