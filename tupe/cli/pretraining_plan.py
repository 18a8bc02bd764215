"""Prints what a pre-training run will be, and refuses what cannot work; scripts/pretrain.sh begins with it.

Example: tupe pretraining-plan --nodes 2 --gpus 8 --gpu h100 configs/pretraining base task.data=DATA \\
             optimization.update_freq=[1]
"""

from __future__ import annotations

import argparse
import contextlib
import os
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the machines and the configuration."""
    add = parser.add_argument
    add("--nodes", type=int, default=1, metavar="N", help="machines (default: %(default)s)")
    add("--gpus", type=int, default=0, metavar="N", help="on each machine; 0 for the CPU (default: %(default)s)")
    add("--processes", type=int, metavar="N", help="on each machine (default: the GPUs, or 1)")
    add("--gpu", metavar="KIND", help="such as h100 or a100: the plan then says hours")
    add("--mfu", type=float, default=0.4, help="share of the GPUs' 16-bit peak that is used (default: %(default)s)")
    add("--here", action="store_true", help="the run starts on this machine, whose GPUs and disk must do")
    add("folder", type=Path, help="of the configurations")
    add("config", help="name of one")
    add("overrides", nargs="*", metavar="key=value", help="of the configuration")
    add("--node-rank", type=int, default=0, metavar="N", help="of this machine, from 0 (default: %(default)s)")
    add("--start", nargs=argparse.REMAINDER, metavar="COMMAND", help="then become this command, alone in its folder")


def run(args: argparse.Namespace) -> None:
    """Prints the plan, and starts the training."""
    from tupe.errors import UserError
    from tupe.files import LOCK, lock
    from tupe.pretraining import Launch, plan, read_config

    launch = Launch(args.nodes, args.processes or max(args.gpus, 1), args.gpus, args.here, args.gpu, args.mfu)
    cfg = read_config(args.folder, args.config, args.overrides)
    for line in plan(cfg, launch):
        print(f"plan: {line}", flush=True)
    if not args.start:
        return
    folder = Path(cfg.checkpoint.save_dir)
    with contextlib.ExitStack() as held:
        if args.node_rank == 0:
            mine = held.enter_context(lock(folder / LOCK))
            if mine is None:
                raise UserError(f"another process is training in {folder}: wait for it to end, or end it.")
            os.set_inheritable(mine.fileno(), True)  # the training holds the folder
        os.execvp(args.start[0], args.start)
