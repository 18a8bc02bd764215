"""Plan a sweep, do its runs, and show its progress."""

import contextlib
import os
import signal
import sys
from collections.abc import Collection, Hashable, Iterable
from pathlib import Path

from tupe.checkpoints.load import open_checkpoint
from tupe.experiments.benchmarks import task_of
from tupe.experiments.finetune import data_checksum
from tupe.experiments.job import keep_best, perform
from tupe.experiments.plan import Plan
from tupe.experiments.process import Process
from tupe.experiments.queue import Progress, Steps, do_runs, say_failed
from tupe.experiments.runs import FAILED, LOG, Run, failure, result
from tupe.experiments.settings import CONFIGS, assignment, read_settings
from tupe.models.describe import full_name
from tupe.models.tupe import as_namespace
from tupe.util import UserError, sha256, visible_gpus


def make_plan(checkpoint: Path, data: Path, overrides: Iterable[str], runs: list[Run]) -> Plan:
    """Return the plan of a sweep of a checkpoint on the prepared tasks in `data`."""
    opened = open_checkpoint(checkpoint)
    return Plan(
        checkpoint=str(checkpoint.resolve()),
        sha256=sha256(checkpoint),
        model=full_name(as_namespace(opened.config)),
        updates=opened.updates,
        data=str(data.resolve()),
        overrides=tuple(overrides),
        runs=tuple(runs),
        data_sha256={task: data_checksum(data / task, task_of(task, data)) for task in {run.task for run in runs}},
    )


def sweep(out: Path, runs: Iterable[Run], hydra_overrides: list[str]) -> None:
    """Do the unfinished runs of the sweep in `out`, with a bar that counts epochs by the size of their data.

    Runs go one after another. With overrides such as `hydra/launcher=joblib`, that launcher of Hydra does them.

    Raises:
        UserError: if the launcher fails, on an interruption, and if no run is finished in the end.
    """
    plan = Plan.load(out)
    for task in {run.task for run in plan.runs}:
        keep_best(out / task)  # a job may have been killed after its result
    progress = _Progress(out, plan, runs)
    if not progress.unfinished:
        return
    to_do = [run for run in progress.size if run in progress.unfinished]
    for run in to_do:  # forget failures of an earlier sweep
        (out / run.folder / FAILED).unlink(missing_ok=True)
    each = ((run, perform(out, run)) for run in to_do)
    launched = iter([("Hydra's launcher", _launched(out, to_do, hydra_overrides))])
    total = Progress(len(progress.size), sum(progress.size.values()))
    do_runs(lambda _: launched if hydra_overrides else each, progress, total, jobs=1)
    progress()
    if progress.unfinished:
        number = len(progress.unfinished)
        raise UserError(f"{number} run(s) in {out} are being done by another process: wait for it to end.")
    if progress.failed == total.runs:
        raise UserError(f"all {total.runs} run(s) in {out} failed: the reasons are above, and in their folders.")


def _launched(out: Path, runs: list[Run], hydra_overrides: list[str]) -> Steps[None]:
    """Do the runs by Hydra's launcher."""
    log = out / "hydra" / LOG
    log.parent.mkdir(exist_ok=True)
    with log.open("wb") as file:
        process = Process(multirun(out, runs, hydra_overrides), log=file)
    yield process
    if process.code:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)  # its workers, if the launcher alone was killed
        raise UserError(f"Hydra's launcher failed (exit status {process.code}): see {log}.")


def multirun(out: Path, runs: list[Run], hydra_overrides: list[str]) -> list[str]:
    """Return the command that does `runs` as jobs of a Hydra multirun."""
    jobs = ",".join(f"{{task:'{run.task}',lr:{run.lr!r},seed:{run.seed}}}" for run in runs)
    command = [sys.executable, "-m", "tupe.experiments.job", "--config-dir", str(CONFIGS), "--multirun"]
    command += [f"run={jobs}", assignment("out", out.resolve()), *hydra_overrides]
    if "hydra/launcher=joblib" in hydra_overrides and not any("n_jobs" in o for o in hydra_overrides):
        command.append(f"hydra.launcher.n_jobs={max(1, len(visible_gpus()))}")
    return command


class _Progress:
    """Progress of a sweep, in epochs weighted by their data, read from the runs' folders."""

    def __init__(self, out: Path, plan: Plan, runs: Iterable[Run]) -> None:
        self.out, self.failed = out, 0
        self.epoch: dict[str, int] = {}  # task -> bytes of its data
        given, data = list(plan.overrides), Path(plan.data)
        epochs = {task: read_settings(task, given, data).epochs for task in {run.task for run in plan.runs}}
        for task in epochs:
            files = (path for part in ("input*/train.bin", "train/*.bin") for path in (data / task).glob(part))
            self.epoch[task] = sum(path.stat().st_size for path in files)
        self.size = {run: self.epoch[run.task] * epochs[run.task] for run in runs}  # of all epochs
        self.unfinished = {run for run in self.size if result(out / run.folder) is None}

    def __call__(self, active: Collection[Hashable] = ()) -> Progress:
        """Read the folders again, and print new failures."""
        for run in sorted(self.unfinished, key=str):
            why = failure(self.out / run.folder)
            if why is not None:
                self.failed += 1
                say_failed(run, why)
            if why is not None or result(self.out / run.folder) is not None:
                self.unfinished.remove(run)
        size = sum(self.size[run] for run in self.size.keys() - self.unfinished)
        size += sum(map(self._begun, self.unfinished)) if active else 0
        return Progress(len(self.size) - len(self.unfinished) - self.failed, size)

    def _begun(self, run: Run) -> int:
        """Return how many bytes an unfinished run has read, by the validations in its log."""
        with contextlib.suppress(OSError):
            log = self.out / run.folder / "hydra_train.log"
            return self.epoch[run.task] * log.read_bytes().count(b'"valid_loss"')
        return 0
