"""Fine-tune a checkpoint on one task: its folder, its training by fairseq, its result."""

import hashlib
import os
from pathlib import Path
from typing import Any, NamedTuple

from tupe.checkpoints.load import open_checkpoint
from tupe.experiments.benchmarks import Task, folder_of, task_of
from tupe.experiments.queue import Steps, run_program
from tupe.experiments.result import Result, finetuning_result
from tupe.experiments.runs import result
from tupe.experiments.settings import CONFIGS, Settings, assignment, read_settings
from tupe.util import run_folder, sha256, user_dir, visible_gpus

_GPU = ("common.bf16=true", "distributed_training.distributed_world_size=1")


class Finished(NamedTuple):
    folder: Path
    result: Result
    before: bool  # whether it was finished before


def finetune(task: str, checkpoint: Path, data: Path, overrides: list[str], **start: Any) -> Steps[Finished]:
    """Fine-tune a checkpoint, or resume an interrupted fine-tuning; a finished run stays as it is.

    The run's folder belongs to this checkpoint, data and settings alone. `data` is the prepared task, or the folder of
    all; `overrides` are `key=value` of configs/finetuning; `start` is for `Process`.

    Raises:
        UserError: if the folder holds a run of something else.
        SystemExit: if the training failed; its own output says why.
    """
    row, data = task_of(task, data), folder_of(task, data)
    settings = read_settings(task, overrides, data)
    config = open_checkpoint(checkpoint).config
    inputs = {"task": task, "checkpoint": sha256(checkpoint), "data": data_checksum(data, row), **settings.flat()}
    folder = Path(settings.save_dir) if settings.save_dir else default_folder(task, checkpoint, settings)
    with run_folder(folder, inputs) as mine:
        before = result(folder) is not None
        if not before:
            keys = [*(_GPU if visible_gpus() else ("common.cpu=true",)), *settings.overrides]
            command = _arguments(row, checkpoint, data, folder, keys)
            yield from run_program("fairseq-hydra-train", command, held=[mine], **start)
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


def data_checksum(data: Path, row: Task) -> str:
    """Return one checksum for all files of a prepared task and of its test sets."""
    digest = hashlib.sha256()
    for folder in (data, *(data.parent / name for name in row.tests)):
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            digest.update(f"{os.path.relpath(path, data)} {sha256(path)}\n".encode())
    return digest.hexdigest()


def _arguments(row: Task, checkpoint: Path, data: Path, folder: Path, overrides: list[str]) -> list[str]:
    group, _, name = row.config.partition("/")
    return [
        *("--config-dir", str(CONFIGS), "--config-name", group, f"{group}={name}"),
        assignment("common.user_dir", user_dir()),
        assignment("task.data", data),
        assignment("model.pretrained", checkpoint),
        assignment("checkpoint.save_dir", folder),
        *overrides,
    ]  # fmt: skip
