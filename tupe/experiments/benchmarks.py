"""Tasks to fine-tune on, and the benchmarks of the papers, which are lists of tasks."""

from dataclasses import dataclass
from pathlib import Path

from tupe.data.glue.tasks import prepared_task


@dataclass(frozen=True)
class Task:
    config: str  # a file of settings below `configs/finetuning`, read after the file with the name of its folder
    tests: tuple[str, ...] = ()  # folders beside the task's, with test sets by language for the best checkpoint
    overrides: tuple[str, ...] = ()  # `key=value` over its settings


@dataclass(frozen=True)
class Benchmark:
    """Tasks, each fine-tuned with every learning rate and seed."""

    tasks: tuple[str, ...]
    learning_rates: tuple[float, ...]  # the papers'
    seeds: tuple[int, ...] = (1, 2, 3, 4, 5)  # as many as the papers'


_GLUE = ("MNLI", "QNLI", "QQP", "SST-2", "CoLA", "MRPC", "RTE", "STS-B", "WNLI")
TASKS = {
    **{name: Task(f"glue/{name.lower().replace('-', '_')}") for name in _GLUE},
    "XNLI": Task("glue/xnli", tests=("XNLI",)),
    "SQuAD": Task("qa/squad", tests=("XQuAD", "MLQA")),
    "TyDiQA": Task("qa/tydiqa", tests=("TyDiQA",)),
}
BENCHMARKS = {
    "glue": Benchmark(_GLUE, (2e-5, 3e-5, 4e-5, 5e-5)),  # TUPE, section 4.1
    "own": Benchmark((), (2e-5, 3e-5, 4e-5, 5e-5)),  # `tupe sweep` finds the tasks in the data
    "xtreme": Benchmark(("XNLI", "SQuAD", "TyDiQA"), (1e-5, 2e-5, 3e-5, 4e-5)),  # DIET
}


def folder_of(name: str, data: Path) -> Path:
    """Return the folder of a prepared task; `data` is this folder, or the folder of all tasks."""
    return data / name if (data / name).is_dir() else data


def task_of(name: str, data: Path) -> Task:
    """Return the row of a task in the table, or a row made for a task of one's own; `data` is as for `folder_of`."""
    if name in TASKS:
        return TASKS[name]
    task = prepared_task(folder_of(name, data))
    number = task.scale is not None
    overrides = (
        f"task.num_classes={len(task.classes) or 1}",
        f"criterion.regression_target={str(number).lower()}",
        f"checkpoint.best_checkpoint_metric={'pearson' if number else 'accuracy'}",
    )
    return Task("glue/own", overrides=overrides)
