"""Keep a classification head: find its task, and put its classes in the task's order."""

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from tupe.data.glue.tasks import TASKS
from tupe.util import UserError


def in_our_order(head: dict[str, Tensor], classes: Sequence[str]) -> tuple[list[str], str]:
    """Put the rows of a head's output in the order in which `tupe prepare-glue` numbers the same classes.

    `head` is changed in place. `classes` are the names of its rows, whose case is ignored.

    Returns:
        the task's names and the task; or the names as they are and an empty string, if no task has them.
    """
    assert len(classes) == len(head["out_proj.weight"]), f"the rows of the head do not match the classes {classes}"
    found = [name.lower() for name in classes]
    for task in TASKS.values():
        named = [name.lower() for name in task.classes]
        if sorted(found) == sorted(named):
            order = [found.index(name) for name in named]
            for part in ("out_proj.weight", "out_proj.bias"):
                head[part] = head[part][order]
            return list(task.classes), task.name
    return list(classes), ""


def task_of(name: str, rows: int, max_positions: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the task and the criterion of a checkpoint with a classification head."""
    criterion = {
        "_name": "tupe_sentence_prediction",
        "classification_head_name": name,
        "regression_target": rows == 1,
    }
    return {**criterion, "data": "", "num_classes": rows, "max_positions": max_positions, "seed": 1}, criterion


def refuse_several_labels(problem: str | None) -> None:
    """Raise `UserError` for a head that gives a text several labels, because tasks here predict only one."""
    if problem == "multi_label_classification":
        raise UserError("The head is multi-label; tasks here have one label. Use it in Transformers, or omit --head.")
