"""Plan a sweep, do its runs, and show its progress."""

import contextlib
import os
import signal
import sys
from collections.abc import Collection, Hashable, Iterable
from pathlib import Path
from typing import NamedTuple

from tupe.checkpoints.load import open_checkpoint
from tupe.cores import visible_gpus
from tupe.errors import UserError
from tupe.experiments.benchmarks import TASKS
from tupe.experiments.finetune import check_dictionary, data_checksum
from tupe.experiments.job import keep_best, steps
from tupe.experiments.plan import Plan
from tupe.experiments.process import Process
from tupe.experiments.queue import Progress, Steps, do_runs, say_failed
from tupe.experiments.runs import FAILED, LOG, Run, failure, result
from tupe.experiments.settings import CONFIGS, assignment, read_settings
from tupe.files import sha256
from tupe.models.describe import full_name
from tupe.models.tupe import as_namespace

_OURS = ("optimization.lr", "common.seed", "checkpoint.save_dir", "common.log_format")  # what the sweep itself sets


def make_plan(checkpoint: Path, data: Path, overrides: Iterable[str], runs: list[Run]) -> Plan:
    """Check what a sweep of a checkpoint on the prepared tasks in `data` needs, and return its plan.

    Raises:
        UserError: if the checkpoint is none of ours, a task is unknown or not prepared, or an override is the sweep's.
    """
    overrides = tuple(overrides)
    for override in overrides:
        key = override.partition("=")[0].lstrip("+~")
        if "=" not in override or key in _OURS:
            raise UserError(
                f"'{override}' cannot be set for a sweep: give key=value, rates by --lrs (LRS), seeds by "
                "--seeds (SEEDS)."
            )
    tasks = list(dict.fromkeys(run.task for run in runs))
    unknown = [task for task in tasks if task not in TASKS]
    if unknown:
        raise UserError(f"there is no task {unknown[0]} to fine-tune: the tasks are {', '.join(TASKS)}.")
    missing = [task for task in tasks if not (data / task / f"{TASKS[task].data}.bin").is_file()]
    if missing:
        prepared_by = " and ".join(dict.fromkeys(TASKS[task].prepared_by for task in missing))
        raise UserError(
            f"{data} has no training data of {', '.join(missing)}: prepare them with {prepared_by}, or name "
            "the tasks to run: --tasks A,B (TASKS=A,B)."
        )
    for task in tasks:
        read_settings(task, list(overrides))  # its sentence, if one of them cannot be
    opened = open_checkpoint(checkpoint)
    for task in tasks:
        check_dictionary(opened, data / task, task)
    return Plan(
        checkpoint=str(checkpoint.resolve()),
        sha256=sha256(checkpoint),
        model=full_name(as_namespace(opened.config)),
        updates=opened.updates,
        data=str(data.resolve()),
        overrides=overrides,
        runs=tuple(runs),
        data_sha256={task: data_checksum(data / task, task) for task in tasks},
    )


def sweep(out: Path, runs: Iterable[Run], hydra_overrides: list[str]) -> None:
    """Do the unfinished runs of the sweep in `out`, with a bar that counts epochs by the size of their data.

    They go one after another, or, with overrides for Hydra such as `hydra/launcher=joblib`, as its launcher does them.

    Raises:
        UserError: if the launcher fails, on an interruption, and if no run is finished in the end.
    """
    plan = Plan.load(out)
    of_task = {task: _Size.of(plan, task) for task in {run.task for run in plan.runs}}
    for task in of_task:
        keep_best(out / task)  # if a job was killed between its result and this
    progress = _Progress(out, {run: of_task[run.task] for run in runs})
    if not progress.unfinished:
        return
    to_do = [run for run in progress.size if run in progress.unfinished]
    for run in to_do:  # a failure of the last time is not one of this time
        (out / run.folder / FAILED).unlink(missing_ok=True)
    each = ((run, steps(out, run)) for run in to_do)
    launched = iter([("all by Hydra", _launched(out, to_do, hydra_overrides))])
    total = Progress(len(progress.size), sum(run.bytes for run in progress.size.values()))
    do_runs(lambda _: launched if hydra_overrides else each, progress, total, jobs=1)
    progress()
    if progress.unfinished:
        number = len(progress.unfinished)
        raise UserError(f"{number} run(s) in {out} are being done by another process: wait for it to end.")
    if progress.failed == total.runs:
        raise UserError(f"all {total.runs} run(s) in {out} failed: the reasons are above, and in their folders.")


def _launched(out: Path, runs: list[Run], hydra_overrides: list[str]) -> Steps[None]:
    """Do the runs as Hydra's launcher does."""
    log = out / "hydra" / LOG
    log.parent.mkdir(exist_ok=True)
    with log.open("wb") as file:
        process = Process(multirun(out, runs, hydra_overrides), log=file)
    yield process
    if process.code:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)  # the workers that are left, if it was killed
        raise UserError(f"Hydra's launcher failed (exit status {process.code}): see {log}.")


def multirun(out: Path, runs: list[Run], hydra_overrides: list[str]) -> list[str]:
    """Return the command that does `runs` as jobs of a Hydra multirun."""
    jobs = ",".join(f"{{task:{run.task},lr:{run.lr!r},seed:{run.seed}}}" for run in runs)
    command = [sys.executable, "-m", "tupe.experiments.job", "--config-dir", str(CONFIGS), "--multirun"]
    command += [f"run={jobs}", assignment("out", out.resolve()), *hydra_overrides]
    if "hydra/launcher=joblib" in hydra_overrides and not any("n_jobs" in o for o in hydra_overrides):
        command.append(f"hydra.launcher.n_jobs={max(1, len(visible_gpus()))}")
    return command


class _Size(NamedTuple):
    """The size of a run: how many epochs, and the bytes of each."""

    epochs: int
    epoch: int

    @classmethod
    def of(cls, plan: Plan, task: str) -> "_Size":
        files = [path for part in ("input*/train.bin", "train/*.bin") for path in Path(plan.data, task).glob(part)]
        return cls(read_settings(task, list(plan.overrides)).epochs, sum(path.stat().st_size for path in files))

    @property
    def bytes(self) -> int:
        return self.epochs * self.epoch

    def done(self, folder: Path) -> int:
        """Return how many bytes an unfinished run has read, by the validations in its log."""
        with contextlib.suppress(OSError):
            return self.epoch * (folder / "hydra_train.log").read_bytes().count(b'"valid_loss"')
        return 0


class _Progress:
    """How far a sweep is, by what is in the folders of its runs, whoever does them."""

    def __init__(self, out: Path, size: dict[Run, _Size]) -> None:
        self.out, self.size, self.failed = out, size, 0
        self.unfinished = {run for run in size if result(out / run.folder) is None}

    def __call__(self, active: Collection[Hashable] = ()) -> Progress:
        """Look at the folders again, and say what has failed."""
        for run in sorted(self.unfinished, key=str):
            why = failure(self.out / run.folder)
            if why is not None:
                self.failed += 1
                say_failed(run, why)
            if why is not None or result(self.out / run.folder) is not None:
                self.unfinished.remove(run)
        size = sum(self.size[run].bytes for run in self.size.keys() - self.unfinished)
        size += sum(self.size[run].done(self.out / run.folder) for run in self.unfinished) if active else 0
        return Progress(len(self.size) - len(self.unfinished) - self.failed, size)
