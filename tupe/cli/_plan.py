"""Arguments and work of the commands that print the plan of a training and start it."""

import argparse
from pathlib import Path
from types import ModuleType
from typing import Any

from tupe.cli._types import whole


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the machines and the configuration."""
    add = parser.add_argument
    add("--nodes", type=whole(1, 100_000), default=1, metavar="N", help="machines (default: %(default)s)")
    add("--gpus", type=whole(0, 1_000), default=0, metavar="N", help="on each machine; 0 for the CPU (default: 0)")
    add("--processes", type=whole(1, 1_000), metavar="N", help="on each machine (default: the GPUs, or 1)")
    add("--here", action="store_true", help="the run starts on this machine, whose GPUs and disk are checked")
    add("folder", type=Path, help="of the configurations")
    add("config", help="name of one")
    add("overrides", nargs="*", metavar="key=value", help="of the configuration")
    add("--node-rank", type=whole(0, 100_000), default=0, metavar="N", help="of this machine, from 0 (default: 0)")
    add("--start", nargs=argparse.REMAINDER, metavar="COMMAND", help="then become this command, alone in its folder")


def run(args: argparse.Namespace, planned: ModuleType, **launch: Any) -> None:
    """Print the plan, and start the training.

    `planned` is `tupe.plan.pretraining` or `tupe.plan.translation`; the `Launch` has the fields `launch` too.
    """
    from tupe.plan.check import Launch
    from tupe.plan.config import read_config, with_pluses
    from tupe.plan.start import start

    cfg = read_config(args.folder, args.config, args.overrides)
    where = Launch(args.nodes, args.processes or max(args.gpus, 1), args.gpus, args.here, **launch)
    for line in planned.plan(cfg, where):
        print(f"plan: {line}", flush=True)
    if args.start:
        command = with_pluses(args.start, args.folder, args.config)
        start(command, cfg, where, planned.MADE_BY, planned.made_of(cfg), args.node_rank)
