"""Fine-tune a checkpoint on tasks with several learning rates and seeds, one run per GPU at a time.

Any number of machines that share the folder of a sweep may run the same command: a run is locked while it is done.
"""

import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from tupe.checkpoints.load import open_checkpoint
from tupe.finetune.runs import RESULT, SWEEP, Run, quoted, result
from tupe.models.describe import full_name
from tupe.models.tupe import as_namespace
from tupe.util import UserError, lock, read_json, run_folder, sha256, visible_gpus, write_json

_OVERRIDES = (
    "checkpoint.no_save_optimizer_state=true",  # an interrupted run begins again
    "checkpoint.no_last_checkpoints=true",
)


def sweep(checkpoint: Path, data: Path, out: Path, overrides: list[str], runs: list[Run], jobs: int = 0) -> list[Run]:
    """Do the unfinished runs of a sweep in `out`, and return the runs that failed, whose logs have the reason.

    Args:
        jobs: number of runs at a time; by default one per visible GPU, or one on the CPU.

    Raises:
        UserError: `out` has a sweep of another checkpoint, other data or other settings.
    """
    plan = join(checkpoint, data, out, overrides, runs)
    print(f"{plan['model']} after {plan['updates']:,} updates: {len(runs)} runs in {out}", flush=True)
    gpus = visible_gpus()
    jobs = jobs or len(gpus) or 1
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
    return [run for run in runs if not (out / run.folder / RESULT).is_file()]


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


def join(checkpoint: Path, data: Path, out: Path, overrides: list[str], runs: list[Run]) -> dict[str, Any]:
    """Add runs to those in `sweep.json`, and return its content.

    Raises:
        UserError: that sweep is of another checkpoint, of other data or with other settings.
    """
    opened = open_checkpoint(checkpoint)
    inputs = {"checkpoint": sha256(checkpoint), "data": str(data.resolve()), "overrides": overrides}
    with run_folder(out, inputs, wait=True):
        before = read_json(out / SWEEP)["runs"] if (out / SWEEP).is_file() else []
        more = [run._asdict() for run in runs if run._asdict() not in before]
        model = full_name(as_namespace(opened.config))
        plan = {"model": model, "updates": opened.updates, "runs": before + more}
        write_json(out / SWEEP, plan)
    return plan


def keep_best(task: Path) -> None:
    """Keep only the best finished run's checkpoint of a task: of equal ones that of the first rate and seed."""
    with lock(task / ".best.lock", wait=True):
        found = [(result(path.parent), path) for path in task.glob("lr_*/seed_*/checkpoint_best.pt")]
        finished = [(-run.score, run.lr, run.seed, path) for run, path in found if run]
        for *_, path in sorted(finished)[1:]:
            path.unlink()
