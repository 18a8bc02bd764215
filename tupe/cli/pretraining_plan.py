"""Prints what a pre-training run will be, and refuses what cannot work; scripts/pretrain.sh begins with it.

Example: tupe pretraining-plan --gpus 8 configs/pretraining base task.data=DATA optimization.update_freq=[2]
"""

from __future__ import annotations

import argparse
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the machines and the configuration."""
    add = parser.add_argument
    add("--nodes", type=int, default=1, metavar="N", help="machines (default: %(default)s)")
    add("--gpus", type=int, default=0, metavar="N", help="on each machine; 0 for the CPU (default: %(default)s)")
    add("--processes", type=int, metavar="N", help="on each machine (default: the GPUs, or 1)")
    add("folder", type=Path, help="of the configurations")
    add("config", help="name of one")
    add("overrides", nargs="*", metavar="key=value", help="of the configuration")


def run(args: argparse.Namespace) -> None:
    """Prints the plan."""
    from tupe.pretraining import Launch, plan, read_config

    launch = Launch(args.nodes, args.processes or max(args.gpus, 1), args.gpus)
    for line in plan(read_config(args.folder, args.config, args.overrides), launch):
        print(f"plan: {line}")
