"""What the commands share that say what a training will be, and start it."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Callable


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the machines and the configuration."""
    add = parser.add_argument
    add("--nodes", type=int, default=1, metavar="N", help="machines (default: %(default)s)")
    add("--gpus", type=int, default=0, metavar="N", help="on each machine; 0 for the CPU (default: %(default)s)")
    add("--processes", type=int, metavar="N", help="on each machine (default: the GPUs, or 1)")
    add("--here", action="store_true", help="the run starts on this machine, whose GPUs and disk are checked")
    add("folder", type=Path, help="of the configurations")
    add("config", help="name of one")
    add("overrides", nargs="*", metavar="key=value", help="of the configuration")
    add("--node-rank", type=int, default=0, metavar="N", help="of this machine, from 0 (default: %(default)s)")
    add("--start", nargs=argparse.REMAINDER, metavar="COMMAND", help="then become this command, alone in its folder")


def say_and_start(
    args: argparse.Namespace,
    made_by: str,
    plan: Callable[..., Iterator[str]],
    made_of: Callable[..., dict[str, Any]],
    **launch: Any,
) -> None:
    """Prints the plan, and starts the training, whose folder is of one model and its data.

    Args:
        args: see above.
        made_by: the script.
        plan: yields the lines, given the configuration and a `Launch`.
        made_of: from the configuration, what the folder of the checkpoints is of.
        launch: more of `Launch`.
    """
    from tupe.files import check_owner, own
    from tupe.pretraining import Launch, read_config, with_pluses

    cfg = read_config(args.folder, args.config, args.overrides)
    processes = args.processes or max(args.gpus, 1)
    for line in plan(cfg, Launch(args.nodes, processes, args.gpus, args.here, **launch)):
        print(f"plan: {line}", flush=True)
    if not args.start:
        return
    start = with_pluses(args.start, args.folder, args.config)
    folder = Path(cfg.checkpoint.save_dir)
    owned = {
        "made_by": made_by,
        "of": made_of(cfg),
        "besides": os.listdir(folder) if folder.is_dir() else [],  # logs of a scheduler, what fairseq began alone
        "mending": "set checkpoint.save_dir to another folder, or remove this one to train anew",
        "is_begun": lambda: any(folder.glob("checkpoint*.pt")),
    }
    if args.node_rank > 0:
        check_owner(folder, **owned)
        os.execvp(start[0], start)
    else:
        with own(folder, **owned) as mine:
            os.set_inheritable(mine.fileno(), True)  # the training holds the folder
            os.execvp(start[0], start)
