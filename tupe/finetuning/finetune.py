"""One fine-tuning on a task, `scripts/finetune_glue.sh`: its folder, its training by fairseq, its result."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import IO, Any, NamedTuple

from tupe.checkpoints.safe_load import safe_load
from tupe.data.qa.report import REPORT, Report
from tupe.errors import UserError
from tupe.fairseq_mends.dictionaries import dictionary_sha256, read_dictionary, refuse_other_dictionary, saved_size
from tupe.files import check_file, check_indexed, own, sha256
from tupe.finetuning import with_parent
from tupe.finetuning.benchmarks import TASKS
from tupe.finetuning.gpus import visible_gpus
from tupe.finetuning.languages import evaluate, question_sets, tested
from tupe.finetuning.result import Result, finetuning_result
from tupe.finetuning.runs import LOG, PREDICTIONS, result
from tupe.finetuning.settings import CONFIGS, Settings, assignment, read_settings
from tupe.finetuning.start import overrides_for
from tupe.models.saved import saved_config
from tupe.user_dir import user_dir

MADE_BY = "scripts/finetune_glue.sh"
_GPU = (
    *("common.fp16=true", "common.fp16_init_scale=4", "common.threshold_loss_scale=1", "common.fp16_scale_window=128"),
    "distributed_training.distributed_world_size=1",
)


class Finished(NamedTuple):
    """A finished run.

    Attributes:
        folder: where it is.
        result: what came out.
        before: whether it was finished when it was asked for.
    """

    folder: Path
    result: Result
    before: bool


def finetune(task: str, checkpoint: Path, data: Path, overrides: list[str]) -> Finished:
    """Fine-tunes a checkpoint, or goes on where that was interrupted; a finished run stays as it is.

    The run's folder is of this checkpoint, data and settings alone (`tupe.files.own`).

    Args:
        task: a name in `tupe.finetuning.benchmarks`.
        checkpoint: a pre-trained checkpoint of this plugin.
        data: the prepared task, or the folder of all.
        overrides: `key=value` of configs/finetuning.

    Raises:
        UserError: for what cannot be, or if the folder holds something else.
        SystemExit: if the training failed, which it has said; with its status.
    """
    if task not in TASKS:
        raise UserError(f"there is no task {task!r} to fine-tune: the tasks are {', '.join(TASKS)}.")
    data = data / task if (data / task).is_dir() else data
    settings = read_settings(task, overrides)
    state = safe_load(checkpoint)
    config = saved_config(state, checkpoint)
    of = {"task": task, "checkpoint": sha256(checkpoint), "data": data_checksum(data, task), "settings": settings.of}
    check_dictionary(state, checkpoint, data, task)
    folder = Path(settings.save_dir) if settings.save_dir else default_folder(task, checkpoint, settings)
    mending = "set checkpoint.save_dir to another folder, or remove this one to train anew"

    def is_begun() -> bool:
        return result(folder) is not None or any(folder.glob("checkpoint*.pt"))

    with own(folder, MADE_BY, of, besides=(LOG,), mending=mending, is_begun=is_begun) as held:
        before = result(folder) is not None
        if not before:
            _train(_command(task, checkpoint, data, folder, overrides_for(config), settings.overrides), held)
            tests = TASKS[task].tests
            tested = tests and (lambda best: evaluate(best, data.parent, tests, folder / PREDICTIONS))
            finetuning_result(folder, tested, config._name)
        (folder / "checkpoint_last.pt").unlink(missing_ok=True)  # was there to resume from
        return Finished(folder, result(folder), before)


def default_folder(task: str, checkpoint: Path, settings: Settings) -> Path:
    """`runs/finetuning/CHECKPOINT/TASK/lr_LR/seed_SEED`, as a sweep names it: 2e-05, also for 0.00002."""
    name = f"{checkpoint.absolute().parent.name}-{checkpoint.stem}"
    return Path("runs/finetuning", name, task, f"lr_{settings.lr:g}", f"seed_{settings.seed}")


def data_checksum(data: Path, task: str) -> str:
    """Checksum of a prepared task and its test sets, whose files are checked.

    Raises:
        UserError: if there is none, or a file is cut.
    """
    row = TASKS[task]
    first = data / row.data
    if not first.with_name(f"{first.name}.bin").is_file():
        raise UserError(f"{data} holds no prepared {task}: {row.prepared_by} makes it.")
    questions = not row.data.startswith("input")
    parts = ("dict.txt", "train/*", "valid/*") if questions else ("input*/*", "label/*")
    tests = [split for name in row.tests for split in question_sets(data.parent / name)]
    for split in [data / "train", data / "valid"] * questions + tests:
        Report.load(split)
    found = {path for part in parts for path in data.glob(part)} | {split / REPORT for split in tests}
    files = sorted(found)
    binary = {path.with_suffix("") for path in files if path.suffix in (".bin", ".idx")}
    for prefix in sorted(binary | {first, data / row.data.replace("train", "valid")}):
        check_indexed(prefix, row.prepared_by)
    digest = hashlib.sha256()
    for path in files:
        check_file(path, row.prepared_by)
        digest.update(f"{os.path.relpath(path, data)} {sha256(path)}\n".encode())
    return digest.hexdigest()


def check_dictionary(state: dict[str, Any], checkpoint: Path, data: Path, task: str) -> None:
    """Raises a `UserError` if a prepared task or its tests have another dictionary than the checkpoint of a `state`."""
    row = TASKS[task]
    checksum, size = state["cfg"]["model"].get("dictionary_sha256"), saved_size(state)
    for folder in dict.fromkeys((data, *tested(data.parent, row.tests))):
        path = folder / ("input0" if row.data.startswith("input") else "") / "dict.txt"
        dictionary = read_dictionary(path, row.prepared_by)
        refuse_other_dictionary(checksum, dictionary, row.prepared_by, size, f" {checkpoint}", str(folder))
        checksum = dictionary_sha256(dictionary)  # of the tests' too, if the checkpoint has none


def _command(
    task: str, checkpoint: Path, data: Path, folder: Path, model: list[str], overrides: list[str]
) -> list[str]:
    group, _, name = TASKS[task].config.partition("/")
    return [
        *("fairseq-hydra-train", "--config-dir", str(CONFIGS), "--config-name", group, f"{group}={name}"),
        assignment("common.user_dir", user_dir()),
        assignment("task.data", data),
        assignment("checkpoint.finetune_from_model", checkpoint),
        assignment("checkpoint.save_dir", folder),
        *(*model, *(_GPU if visible_gpus() else ["common.cpu=true"]), *overrides),
    ]  # fmt: skip


def _train(command: list[str], held: IO) -> None:
    """Runs the training, which holds the folder and what else was given to this process, and ends with it."""
    os.set_inheritable(held.fileno(), True)
    starter = [sys.executable, "-S", with_parent.__file__, str(os.getpid())]
    process = subprocess.Popen([*starter, *command], stdin=subprocess.DEVNULL, close_fds=False)

    def end(*_: object) -> None:
        process.terminate()
        raise SystemExit(128 + signal.SIGTERM)

    before = signal.signal(signal.SIGTERM, end)
    try:
        code = process.wait()
    except KeyboardInterrupt:
        try:
            process.wait(10)  # it got the signal from the keyboard too, and says how to go on
        except subprocess.TimeoutExpired:
            process.terminate()
        raise SystemExit(128 + signal.SIGINT) from None
    finally:
        process.wait()
        signal.signal(signal.SIGTERM, before)
    if code:
        raise SystemExit(code if code > 0 else 128 - code)
