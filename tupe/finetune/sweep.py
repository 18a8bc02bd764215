"""Fine-tune a checkpoint on tasks with several learning rates and seeds, one run per GPU at a time.

Any number of machines that share the folder of a sweep may run the same command, because a run in progress is locked.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Literal

from tupe.checkpoints.load import open_checkpoint
from tupe.data.glue.tasks import own_tasks
from tupe.finetune.benchmarks import BENCHMARKS, SEEDS
from tupe.finetune.runs import RESULT, SWEEP, Run, identity, quoted, result
from tupe.finetune.table import markdown, read_sweep
from tupe.models.describe import full_name
from tupe.models.tupe import as_namespace
from tupe.util import UserError, lock, read_json, run_folder, set_cpu_env, sha256, visible_gpus, write_json

_OVERRIDES = (
    "checkpoint.no_save_optimizer_state=true",  # an interrupted run starts again
    "checkpoint.no_last_checkpoints=true",
)


def sweep(
    benchmark: Literal["glue", "xtreme", "own"],
    checkpoint: Path,
    data: Path,
    out: Path,
    overrides: Sequence[str] = (),
    *,
    tasks: Sequence[str] = (),
    lrs: Sequence[float] = (),
    seeds: Sequence[int] = (),
    jobs: int = 0,
) -> None:
    """Fine-tune a checkpoint on a benchmark with several learning rates and seeds, and print the table.

    The same command resumes an interrupted sweep; finished runs are kept.

    tupe sweep glue checkpoints/tupe_a_base/checkpoint_last.pt data/glue runs/glue/tupe_a_base --tasks CoLA,RTE

    Args:
        benchmark: Benchmark with the tasks; own: your own tasks in DATA.
        checkpoint: Checkpoint of this plugin.
        data: Folder with a prepared folder for each task.
        out: Folder of the sweep.
        overrides: Overrides of the configuration, `key=value`.
        tasks: Tasks; all by default.
        lrs: Learning rates; the papers' by default.
        seeds: Seeds; 1,2,3,4,5 by default.
        jobs: Runs at a time; by default one per visible GPU, or one on the CPU.

    Raises:
        UserError: a run failed, or `out` has a sweep of another checkpoint, other data or other settings.
    """
    usual, rates = BENCHMARKS[benchmark]
    names = tasks or usual or own_tasks(data)
    runs = list(dict.fromkeys(Run(task, lr, seed) for task in names for lr in lrs or rates for seed in seeds or SEEDS))
    plan = add_runs(checkpoint, data, out, list(overrides), runs)
    print(f"{plan['model']} after {plan['updates']:,} updates: {len(runs)} runs in {out}", flush=True)
    gpus = visible_gpus()
    jobs = jobs or len(gpus) or 1
    set_cpu_env(jobs)
    free: SimpleQueue[dict[str, str]] = SimpleQueue()
    for job in range(jobs):
        free.put({"CUDA_VISIBLE_DEVICES": gpus[job % len(gpus)]} if gpus else {})

    def perform(run: Run, wait: bool = False) -> bool:
        """Do a run unless it is finished; return false if another process is doing it."""
        environment = free.get()
        try:
            with lock(out / run.folder.with_name(f".{run.folder.name}.lock"), wait) as held:
                if not (out / run.folder / RESULT).is_file():
                    given = [*_OVERRIDES, *overrides, f"optimization.lr=[{run.lr!r}]", f"common.seed={run.seed}"]
                    command = ["finetune", run.task, str(checkpoint), str(data), *given]
                    run_alone(command, out / run.folder, environment, held.fileno())
                    print(f"{run}: {result(out / run.folder) or f'failed, see {out / run.folder}/log'}", flush=True)
                keep_best(out / run.task)
            return True
        except UserError:
            return False
        finally:
            free.put(environment)

    with ThreadPoolExecutor(jobs) as pool:
        done = list(pool.map(perform, runs))
        busy = [run for run, is_done in zip(runs, done) if not is_done]
        list(pool.map(lambda run: perform(run, wait=True), busy))
    print(markdown([read_sweep(out)]))
    if failed := sum(not (out / run.folder / RESULT).is_file() for run in runs):
        raise UserError(f"{failed} of {len(runs)} runs failed. Run the same command to retry them.")


def run_alone(command: list[str], folder: Path, environment: dict[str, str], held: int) -> None:
    """Run a command of `tupe` in a new folder, as a process that keeps the lock `held` if this process is killed."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with (folder / "log").open("wb") as log:
        subprocess.run(
            [sys.executable, "-m", "tupe", *command, f"checkpoint.save_dir={quoted(folder)}"],
            env={**os.environ, "PYTHONWARNINGS": "ignore", **environment},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            pass_fds=[held],
        )


def add_runs(checkpoint: Path, data: Path, out: Path, overrides: list[str], runs: list[Run]) -> dict[str, Any]:
    """Add runs to those in `sweep.json`, and return its content."""
    opened = open_checkpoint(checkpoint)
    with run_folder(out, {"checkpoint": sha256(checkpoint), "overrides": overrides}, wait=True):
        for task in {run.task for run in runs if (data / run.task).is_dir()}:
            with run_folder(out / task, {"data": identity(data / task)}, wait=True):
                pass  # raises an error if the folder has runs on other data
        before = read_json(out / SWEEP)["runs"] if (out / SWEEP).is_file() else []
        more = [run._asdict() for run in runs if run._asdict() not in before]
        plan = {"model": full_name(as_namespace(opened.config)), "updates": opened.updates, "runs": before + more}
        write_json(out / SWEEP, plan)
    return plan


def keep_best(task: Path) -> None:
    """Keep only the checkpoint of a task's best finished run; the lowest rate, then the lowest seed wins ties."""
    found = [(result(path.parent), path) for path in task.glob("lr_*/seed_*/checkpoint_best.pt")]
    finished = [(-run.score, run.lr, run.seed, path) for run, path in found if run]
    for *_, path in sorted(finished)[1:]:
        path.unlink(missing_ok=True)  # another process may delete it first
