"""A classification head that is kept: its task, and its classes in the order of ours."""

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from tupe.data.glue.tasks import TASKS


def in_our_order(head: dict[str, Tensor], classes: Sequence[str] | None) -> tuple[list[str] | None, str]:
    """Put the rows of a head's output in the order in which `tupe prepare-glue` numbers the same classes.

    `head` is changed in place. Upper and lower case in `classes`, the names of its rows, and synonyms are the same.

    Returns:
        the names in the new order, and the task that has them; the old ones and nothing where no task has.
    """
    if classes is None:
        return None, ""
    assert len(classes) == len(head["out_proj.weight"]), f"the head has no row for each of {classes}"
    for task in TASKS.values():
        synonyms = {theirs.lower(): ours for theirs, ours in task.synonyms}
        named = {ours.lower(): ours for ours in task.classes}
        found = [synonyms.get(name.lower(), named.get(name.lower())) for name in classes]
        if task.classes and None not in found and sorted(found) == sorted(task.classes):
            order = [found.index(name) for name in task.classes]
            for part in ("out_proj.weight", "out_proj.bias"):
                head[part] = head[part][order]
            return list(task.classes), task.name
    return list(classes), ""


def task_of(name: str, rows: int, max_positions: int, multi_label: bool) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the task and the criterion of a checkpoint with a classification head."""
    criterion = {
        "_name": "tupe_sentence_prediction",
        "classification_head_name": name,
        "regression_target": rows == 1 and not multi_label,
    }
    task = {"data": "", "num_classes": rows, "max_positions": max_positions, "seed": 1, "multi_label": multi_label}
    return {**criterion, **task}, criterion
