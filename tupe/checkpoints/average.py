"""The mean of several checkpoints of one run, which translates better than the last alone (Vaswani et al., 6.1)."""

import re
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from tupe.safe_load import safe_load
from tupe.util import UserError

_SAVED = (re.compile(r"checkpoint_\d+_(\d+)\.pt"), re.compile(r"checkpoint(\d+)\.pt"))  # by updates, by epochs


def last_checkpoints(folder: Path, number: int) -> list[Path]:
    """Return the newest `number` checkpoints that a run kept, by updates, or if there are none of these, by epochs.

    Raises:
        UserError: the run kept fewer.
    """
    found: list[Path] = []
    for pattern in _SAVED:
        saved = {int(match[1]): path for path in folder.glob("*.pt") if (match := pattern.fullmatch(path.name))}
        found = found or [saved[key] for key in sorted(saved)]
    if not 1 <= number <= len(found):
        raise UserError(f"{folder} has {len(found)} checkpoints of updates or epochs, not {number}.")
    return found[-number:]


def average(paths: list[Path]) -> dict[str, Any]:
    """Return the last checkpoint of `paths` without its optimizer, and with the mean of all parameters in float32.

    Raises:
        UserError: two checkpoints differ in their model's fields, or in the classes that they were fine-tuned with.
    """
    total: dict[str, Tensor] = {}
    first: dict[str, Any] = {}
    for path in paths:
        state = safe_load(path)
        model, task = state["model"], state["cfg"].get("task") or {}
        fields = {**state["cfg"]["model"], "labels_sha256": task.get("labels_sha256")}
        first = first or fields
        if other := sorted(name for name in {**first, **fields} if first.get(name) != fields.get(name)):
            raise UserError(f"{paths[0]} and {path} are not of one model: they differ in {', '.join(other)}.")
        for name, tensor in model.items():
            if tensor.is_floating_point():
                tensor = tensor.to(torch.promote_types(tensor.dtype, torch.float32))
                tensor = tensor + total[name] if name in total else tensor
            total[name] = tensor
    shared: dict[tuple, Tensor] = {}  # a tensor that two names share is one in the file, too
    for name, tensor in model.items():
        at = (tensor.data_ptr(), tensor.shape, tensor.stride())
        mean = (total[name] / len(paths)).to(tensor.dtype) if tensor.is_floating_point() else tensor
        model[name] = shared.setdefault(at, mean)
    state["last_optimizer_state"] = None
    return state
