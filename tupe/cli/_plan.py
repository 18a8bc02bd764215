"""Arguments and work of the commands that print the plan of a training and start it."""

import argparse
import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tupe.cli._types import whole
from tupe.cores import cpu_environment, threads_for


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the machines and the configuration."""
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


def say_and_start(
    args: argparse.Namespace,
    made_by: str,
    plan: Callable[..., Iterator[str]],
    made_of: Callable[..., dict[str, Any]],
    **launch: Any,
) -> None:
    """Print the plan, and start the training, whose folder belongs to one model and its data.

    `plan` yields the lines for a configuration and a `Launch`, which has the fields `launch` too; `made_of` says what
    the folder of the checkpoints depends on.
    """
    from tupe.files import Owner
    from tupe.plan.pretraining import Launch, read_config, with_pluses

    cfg = read_config(args.folder, args.config, args.overrides)
    processes = args.processes or max(args.gpus, 1)
    for line in plan(cfg, Launch(args.nodes, processes, args.gpus, args.here, **launch)):
        print(f"plan: {line}", flush=True)
    if not args.start:
        return
    start = with_pluses(args.start, args.folder, args.config)
    folder = Path(cfg.checkpoint.save_dir)
    owner = Owner(
        folder,
        made_by,
        made_of(cfg),
        besides=None,  # logs of a scheduler, what fairseq began alone
        mending="set checkpoint.save_dir to another folder, or remove this one to train anew",
        is_begun=lambda: any(folder.glob("checkpoint*.pt")),
    )
    with contextlib.ExitStack() as held:
        if args.node_rank > 0:
            owner.check()
        else:
            os.set_inheritable(held.enter_context(owner.hold()).fileno(), True)  # the training holds the folder
        if not args.gpus:
            os.environ |= cpu_environment(threads_for(folder, processes))
        os.execvp(start[0], start)
