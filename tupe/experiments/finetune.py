"""Fine-tune a checkpoint on one task: its folder, its training by fairseq, its result."""

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple

from tupe.checkpoints.load import Checkpoint, open_checkpoint
from tupe.cores import visible_gpus
from tupe.data.binary import check_indexed
from tupe.data.qa.report import REPORT, Report
from tupe.errors import UserError
from tupe.experiments.benchmarks import Task
from tupe.experiments.own import folder_of, task_of
from tupe.experiments.queue import Steps, run_program
from tupe.experiments.result import Result, finetuning_result
from tupe.experiments.runs import LOG, MADE_BY, result
from tupe.experiments.settings import CONFIGS, Settings, assignment, overrides_for, read_settings
from tupe.fairseq_patches.checkpoints import dictionary_sha256, read_dictionary, refuse_other_dictionary, saved_size
from tupe.files import check_file, own, sha256
from tupe.inference.languages import question_sets, tested
from tupe.user_dir import user_dir

_GPU = ("common.bf16=true", "distributed_training.distributed_world_size=1")


class Finished(NamedTuple):
    folder: Path
    result: Result
    before: bool  # whether it was finished before


def finetune(
    task: str, checkpoint: Path, data: Path, overrides: list[str], held: Sequence[IO] = (), **start: Any
) -> Steps[Finished]:
    """Fine-tune a checkpoint, or resume an interrupted fine-tuning; a finished run stays as it is.

    The run's folder belongs to this checkpoint, data and settings alone (`tupe.files.own`). `data` is the prepared
    task, or the folder of all; `overrides` are `key=value` of configs/finetuning; `held` and `start` are for `Process`.

    Raises:
        UserError: for wrong inputs, or if the folder holds something else.
        SystemExit: if the training failed; its own output says why.
    """
    row, data = task_of(task, data), folder_of(task, data)
    settings = read_settings(task, overrides, data)
    opened = open_checkpoint(checkpoint)
    config = opened.config
    of = {"task": task, "checkpoint": sha256(checkpoint), "data": data_checksum(data, task), "settings": settings.of}
    check_dictionary(opened, data, task)
    del opened  # or its tensors stay in memory while the training runs
    folder = Path(settings.save_dir) if settings.save_dir else default_folder(task, checkpoint, settings)
    mending = "set checkpoint.save_dir to another folder, or remove this one to train anew"

    def is_begun() -> bool:
        return result(folder) is not None or any(folder.glob("checkpoint*.pt"))

    with own(folder, MADE_BY, of, besides=(LOG,), mending=mending, is_begun=is_begun) as mine:
        before = result(folder) is not None
        if not before:
            start["held"] = [mine, *held]
            keys = [*overrides_for(config), *settings.overrides]
            if visible_gpus():
                keys = [*_GPU, *keys]
            else:
                keys = ["common.cpu=true", *keys]
            yield from run_program("fairseq-hydra-train", _arguments(row, checkpoint, data, folder, keys), **start)
            if row.tests:  # another process tests on the GPU of the training
                test = ["finetuning-result", "--test", task, "--model", config._name, folder]
                yield from run_program("tupe", test, **start)
            else:
                finetuning_result(folder, model=config._name)
        (folder / "checkpoint_last.pt").unlink(missing_ok=True)  # only an unfinished run needs it
        return Finished(folder, result(folder), before)


def default_folder(task: str, checkpoint: Path, settings: Settings) -> Path:
    """Return `runs/finetuning/CHECKPOINT/TASK/lr_LR/seed_SEED`, with the rate as in a sweep, 2e-05."""
    name = f"{checkpoint.absolute().parent.name}-{checkpoint.stem}"
    return Path("runs/finetuning", name, task, f"lr_{settings.lr:g}", f"seed_{settings.seed}")


def data_checksum(data: Path, task: str) -> str:
    """Check the files of a prepared task and of its test sets, and return one checksum for all.

    Raises:
        UserError: if the task is not prepared, or a file is incomplete.
    """
    row = task_of(task, data)
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


def check_dictionary(checkpoint: Checkpoint, data: Path, task: str) -> None:
    """Raise a `UserError` if a task or its test sets have another dictionary than the checkpoint."""
    row = task_of(task, data)
    checksum, size = checkpoint.config.dictionary_sha256, saved_size(checkpoint.state)
    for folder in dict.fromkeys((data, *tested(data.parent, row.tests))):
        path = folder / ("input0" if row.data.startswith("input") else "") / "dict.txt"
        dictionary = read_dictionary(path)
        refuse_other_dictionary(checksum, dictionary, size, f" {checkpoint}", str(folder))
        checksum = dictionary_sha256(dictionary)  # if the checkpoint has none, the tests are compared with the task


def _arguments(row: Task, checkpoint: Path, data: Path, folder: Path, overrides: list[str]) -> list[str]:
    group, _, name = row.config.partition("/")
    return [
        *("--config-dir", str(CONFIGS), "--config-name", group, f"{group}={name}"),
        assignment("common.user_dir", user_dir()),
        assignment("task.data", data),
        assignment("checkpoint.finetune_from_model", checkpoint),
        assignment("checkpoint.save_dir", folder),
        *overrides,
    ]  # fmt: skip
