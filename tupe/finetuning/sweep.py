"""Plan a sweep, run it as a Hydra multirun, and show its progress."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from tqdm import tqdm

from tupe.checkpoints.load import open_checkpoint
from tupe.cores import visible_gpus
from tupe.errors import UserError
from tupe.files import sha256
from tupe.finetuning.benchmarks import TASKS
from tupe.finetuning.finetune import check_dictionary, data_checksum
from tupe.finetuning.job import PARENT, keep_best
from tupe.finetuning.plan import Plan
from tupe.finetuning.runs import FAILED, LOG, Run, failure, result
from tupe.finetuning.settings import CONFIGS, assignment, read_settings
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

    `hydra_overrides` are for Hydra itself, such as `hydra/launcher=joblib`.

    Raises:
        UserError: if the launcher fails, on an interruption, and if no run is finished in the end.
    """
    plan = Plan.load(out)
    of_task = {task: _Size.of(plan, task) for task in {run.task for run in plan.runs}}
    size = {run: of_task[run.task] for run in runs}
    to_do = [run for run in size if result(out / run.folder) is None]
    for task in of_task:
        keep_best(out / task)  # if a job was killed between its result and this
    if not to_do:
        return
    for run in to_do:  # a failure of the last time is not one of this time
        (out / run.folder / FAILED).unlink(missing_ok=True)
    log = out / "hydra" / LOG
    log.parent.mkdir(exist_ok=True)
    layout = "{desc} |{bar}| {percentage:3.0f}% [{elapsed} gone, {remaining} left]"
    total = sum(run.bytes for run in size.values())
    done = total - sum(size[run].bytes for run in to_do)
    with log.open("wb") as file, tqdm(total=total, initial=done, bar_format=layout, smoothing=0) as bar:
        process = subprocess.Popen(
            multirun(out, to_do, hydra_overrides), stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT,
            start_new_session=True, env={**os.environ, PARENT: str(os.getpid())},
        )  # fmt: skip
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C
        try:
            running = set(to_do)
            while running:
                ended = process.poll() is not None  # asked first: what it wrote before it ended is then seen
                _show(bar, out, size, running)
                if ended:
                    break
                time.sleep(0.5)
            code = process.wait()
        except BaseException as error:
            _end(process)
            if not isinstance(error, KeyboardInterrupt):
                raise
            finished = sum(result(out / run.folder) is not None for run in size)
            raise UserError(
                f"interrupted with {finished} of {len(size)} runs finished: the same command goes on from there."
            ) from None
    if code:
        _end(process)  # what it may have left, if it was killed
        raise UserError(f"Hydra's launcher failed (exit status {code}): see {log}.")
    if running:
        raise UserError(f"{len(running)} run(s) in {out} are being done by another process: wait for it to end.")
    if all(result(out / run.folder) is None for run in size):
        raise UserError(f"all {len(size)} run(s) in {out} failed: the reasons are above, and in their folders.")


def _end(process: subprocess.Popen) -> None:
    """End Hydra and its workers, which are one process group and end their runs."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    process.wait()


def multirun(out: Path, runs: list[Run], hydra_overrides: list[str]) -> list[str]:
    """Return the command that does `runs` as jobs of a Hydra multirun."""
    jobs = ",".join(f"{{task:{run.task},lr:{run.lr!r},seed:{run.seed}}}" for run in runs)
    command = [sys.executable, "-m", "tupe.finetuning.job", "--config-dir", str(CONFIGS), "--multirun"]
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


def _show(bar: tqdm, out: Path, size: dict[Run, _Size], running: set[Run]) -> None:
    """Move the bar to where the runs are, and take those that have ended from `running`."""
    for run in sorted(running, key=str):
        why = failure(out / run.folder)
        if why is not None:
            bar.write(f"failed: {run}: {why}", file=sys.stderr)
        if why is not None or result(out / run.folder) is not None:
            running.remove(run)
    before = bar.n, bar.desc
    bar.n = sum(one.done(out / run.folder) if run in running else one.bytes for run, one in size.items())
    bar.set_description_str(f"{len(size) - len(running)} of {len(size)} runs", refresh=False)
    if sys.stderr.isatty() or before != (bar.n, bar.desc):  # a file gets a line for each epoch, not two a second
        bar.refresh()
