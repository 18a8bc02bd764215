"""Settings of users' own tasks, from the description that `tupe prepare-task` wrote."""

from pathlib import Path

from tupe.criterions.metrics import has_entities
from tupe.data.glue import own, tasks
from tupe.errors import UserError
from tupe.experiments.benchmarks import TASKS, Task


def folder_of(name: str, data: Path) -> Path:
    """Return the folder of a prepared task; `data` is this folder, or the folder of all tasks."""
    return data / name if (data / name).is_dir() else data


def task_of(name: str, data: Path) -> Task:
    """Return the row of a task in the table, or a row made for a user's own task; `data` is as for `folder_of`.

    Raises:
        UserError: if there is no such task, `data` is another, or a user's own has the name of one in the table.
    """
    folder = folder_of(name, data)
    description = own.description(folder)
    if name in TASKS:
        if description is not None:
            raise UserError(
                f"{folder} is a task of your own, but {name} is one of GLUE or XTREME, with settings of its own: give "
                "the folder another name, and take that."
            )
        if (found := own.prepared_as(folder)) not in (None, name):
            raise UserError(
                f"{folder} holds the task {found!s:.60}, not {name}: give the folder of {name}, or that of all."
            )
        return TASKS[name]
    if description is None or description.name != name:
        raise UserError(
            f"there is no task {name!r:.60} to fine-tune: the tasks are {', '.join(TASKS)}, and what tupe prepare-task "
            f"made in {data}."
        )
    return _own(description)


def _own(task: tasks.Task) -> Task:
    """Return the settings that follow from the description of a user's own task."""
    regression = task.scale is not None
    if task.tokens:
        metric = "f1" if has_entities(task.classes) else "accuracy"
    else:
        metric = "pearson" if regression else "micro_f1" if task.multi_label else "accuracy"
    overrides = (
        f"task.num_classes={len(task.classes) or 1}",
        *(["criterion.regression_target=true"] if regression else []),
        *(["task.multi_label=true"] if task.multi_label else []),
        f"checkpoint.best_checkpoint_metric={metric}",
    )
    return Task("tokens/own" if task.tokens else "glue/own", own.MADE_BY, "input0/train", overrides=overrides)
