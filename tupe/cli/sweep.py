"""Fine-tunes a checkpoint on a benchmark with several learning rates and seeds, and prints the table.

A run of XTREME also tests its best checkpoint on every language of the prepared data. The same command goes on after a
stop: runs that were interrupted or failed start again.
Example: tupe sweep glue --tasks CoLA,RTE checkpoints/tupe_base/checkpoint_last.pt data/glue runs/glue/tupe_base
"""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tupe.experiments.benchmarks import BENCHMARKS
from tupe.experiments.runs import grid


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("benchmark", choices=BENCHMARKS, help="run its tasks, rates and seeds; own: tasks of your own in DATA")
    add("--tasks", type=_listed(str), metavar="A,B", help="default: all of the benchmark, or of your own in DATA")
    add("--lrs", type=_listed(float), metavar="A,B", help="default: the papers', 2e-5,3e-5,4e-5,5e-5 of GLUE")
    add("--seeds", type=_listed(int), metavar="A,B", help="default: 1,2,3,4,5")
    add("checkpoint", metavar="CHECKPOINT", type=Path, help="a pre-trained checkpoint of this plugin")
    add("data", metavar="DATA", type=Path, help="folder with a prepared folder for each task")
    add("out", metavar="OUT", type=Path, help="folder of the sweep")
    add(
        "overrides",
        nargs="*",
        default=[],
        metavar="key=value",
        help="changes of configs/finetuning, or hydra...",
    )


def _listed(kind: Callable[[str], Any]) -> Callable[[str], list]:
    """Make the type of a list such as `1,2,3`, without repeated values."""
    return lambda text: list(dict.fromkeys(kind(value) for value in text.split(",")))


def run(args: argparse.Namespace) -> None:
    from tupe.data.glue.reader import own_tasks
    from tupe.experiments.formats import markdown
    from tupe.experiments.sweep import make_plan, sweep
    from tupe.experiments.table import read_sweep

    benchmark = BENCHMARKS[args.benchmark]
    tasks = args.tasks or list(benchmark.tasks or own_tasks(args.data))
    lrs, seeds = args.lrs or benchmark.learning_rates, args.seeds or benchmark.seeds
    runs = grid(tasks, lrs, seeds)
    ours = [override for override in args.overrides if not override.lstrip("+~").startswith("hydra")]
    plan = make_plan(args.checkpoint, args.data, ours, runs).join(args.out)
    print(
        f"plan: {plan.model} after {plan.updates:,} updates; {len(tasks)} task(s) x {len(lrs)} learning "
        f"rate(s) x {len(seeds)} seed(s) = {len(runs)} runs in {args.out}",
        flush=True,
    )
    sweep(args.out, runs, [override for override in args.overrides if override not in ours])
    print(markdown([read_sweep(args.out)]))
