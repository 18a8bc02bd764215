"""Prints what a pre-training run will be, and refuses what cannot work; scripts/pretrain.sh begins with it.

Example: tupe pretraining-plan --nodes 2 --gpus 8 --gpu h100 configs/pretraining base task.data=DATA \\
             optimization.update_freq=[1]
"""

from __future__ import annotations

import argparse

from tupe.cli import _plan


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the machines, the kind of their GPUs and the configuration."""
    add = parser.add_argument
    add("--gpu", metavar="KIND", help="such as h100 or a100: the plan then says hours")
    add("--mfu", type=float, default=0.4, help="share of the GPUs' 16-bit peak that is used (default: %(default)s)")
    _plan.add_arguments(parser)


def run(args: argparse.Namespace) -> None:
    """Prints the plan; with --start, becomes the training."""
    from tupe.pretraining import made_of, plan

    _plan.say_and_start(args, "scripts/pretrain.sh", plan, made_of, gpu=args.gpu, mfu=args.mfu)
