"""Fine-tunes a checkpoint on a benchmark with several learning rates and seeds, and prints the table.

A run of XTREME also tests its best checkpoint on every language of the prepared data. The same command goes on after a
stop: runs that were interrupted or failed start again.
Example: tupe sweep glue --tasks CoLA,RTE checkpoints/tupe_base/checkpoint_last.pt data/glue runs/glue/tupe_base
"""

import argparse
from dataclasses import replace
from pathlib import Path

from tupe.cli._types import SEEDS, listed, output_folder, real, whole
from tupe.errors import UserError
from tupe.experiments.benchmarks import BENCHMARKS
from tupe.experiments.runs import grid


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("benchmark", choices=BENCHMARKS, help="run its tasks, rates and seeds; own: tasks of tupe prepare-task")
    add("--tasks", type=listed(str), metavar="A,B", help="default: all of the benchmark, or of your own in DATA")
    add(
        "--lrs", type=listed(real(1e-12, 1e38)), metavar="A,B", help="default: the papers', 2e-5,3e-5,4e-5,5e-5 of GLUE"
    )
    add("--seeds", type=listed(whole(*SEEDS)), metavar="A,B", help="default: 1,2,3,4,5")
    add("checkpoint", metavar="CHECKPOINT", type=Path, help="a pre-trained checkpoint of this plugin")
    add("data", metavar="DATA", type=Path, help="folder with a prepared folder for each task")
    add("out", metavar="OUT", type=output_folder, help="folder of the sweep")
    add("overrides", nargs="*", metavar="key=value", help="changes of configs/finetuning; hydra... for the launcher")


def run(args: argparse.Namespace) -> None:
    from tupe.data.glue.own import own_tasks
    from tupe.experiments.formats import markdown
    from tupe.experiments.sweep import make_plan, sweep
    from tupe.experiments.table import read_sweep

    benchmark = BENCHMARKS[args.benchmark]
    if args.benchmark == "own":
        benchmark = replace(benchmark, tasks=tuple(own_tasks(args.data)))
        if not benchmark.tasks:
            raise UserError(f"{args.data} has no task of your own: prepare one there with tupe prepare-task.")
    given = (args.tasks, args.lrs, args.seeds)
    papers = (benchmark.tasks, benchmark.learning_rates, benchmark.seeds)
    tasks, lrs, seeds = (list(default if asked is None else asked) for asked, default in zip(given, papers))
    others = [task for task in tasks if task not in benchmark.tasks]
    if others:
        raise UserError(
            f"there is no task {others[0]} of {benchmark.title} to fine-tune: choose from {', '.join(benchmark.tasks)}."
        )
    runs = grid(tasks, lrs, seeds)
    if not runs:
        raise UserError("there is nothing to run: give at least one task, one learning rate and one seed.")
    ours = [override for override in args.overrides if not override.lstrip("+~").startswith("hydra")]
    plan = make_plan(args.checkpoint, args.data, ours, runs).join(args.out)
    print(
        f"plan: {plan.model} after {plan.updates:,} updates; {len(tasks)} task(s) x {len(lrs)} learning "
        f"rate(s) x {len(seeds)} seed(s) = {len(runs)} runs in {args.out}",
        flush=True,
    )
    sweep(args.out, runs, [override for override in args.overrides if override not in ours])
    print(markdown([read_sweep(args.out)]))
