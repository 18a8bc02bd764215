"""The mean of several checkpoints of one run, which translates better than the last alone (Vaswani et al., 6.1)."""

import re
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from tupe.errors import UserError
from tupe.fairseq_patches.checkpoints import saved_fields
from tupe.safe_load import safe_load

_SAVED = (re.compile(r"checkpoint_\d+_(\d+)\.pt"), re.compile(r"checkpoint(\d+)\.pt"))  # by updates, by epochs


def last_checkpoints(folder: Path, number: int) -> list[Path]:
    """Return the newest `number` checkpoints that a run kept, by updates, or if there are none of these, by epochs.

    Raises:
        UserError: if the run kept fewer.
    """
    found: list[Path] = []
    for pattern in _SAVED:
        saved = {int(match[1]): path for path in folder.glob("*.pt") if (match := pattern.fullmatch(path.name))}
        found = found or [saved[key] for key in sorted(saved)]
    if not 1 <= number <= len(found):
        raise UserError(
            f"{number} checkpoints are to be averaged, but {folder} has {len(found)} of the kind checkpoint_EPOCH_"
            "UPDATES.pt or checkpointEPOCH.pt: ask for as many as there are, or keep more in training "
            "(checkpoint.keep_interval_updates, checkpoint.keep_last_epochs)"
        )
    return found[-number:]


def average(paths: list[Path]) -> dict[str, Any]:
    """Return the last checkpoint of `paths` without its optimizer, and with the mean of all parameters in float32.

    Raises:
        UserError: if one is no checkpoint of fairseq, its weights are not finite, or they are not of the same model.
    """
    total: dict[str, Tensor] = {}
    for path in paths:
        state = safe_load(path)
        saved = saved_fields(state.get("cfg"))
        model, cfg = state.get("model"), saved_fields(saved.get("model"))
        if not (isinstance(model, dict) and model and cfg) or any(not isinstance(t, Tensor) for t in model.values()):
            raise UserError(f"{path} is not a checkpoint of fairseq: give one that is")
        cfg = {**cfg, "labels": saved_fields(saved.get("task")).get("labels_sha256")}  # of a fine-tuning
        if not total:
            first, total = cfg, {name: _as_sum(tensor) for name, tensor in model.items()}
            continue
        _check_same(paths[0], path, first, cfg, total, model)
        for name, tensor in model.items():
            if tensor.is_floating_point():
                total[name] += tensor
            elif not torch.equal(total[name], tensor):
                raise UserError(f"{paths[0]} and {path} differ in {name}, whose whole numbers have no mean")
    shared: dict[tuple, Tensor] = {}  # a tensor that two names share is one in the file, too
    for name, tensor in model.items():
        at = (tensor.data_ptr(), tensor.shape, tensor.stride())
        mean = (total[name] / len(paths)).to(tensor.dtype) if tensor.is_floating_point() else total[name]
        model[name] = shared.setdefault(at, mean)
    state["last_optimizer_state"] = None
    return state


def _as_sum(tensor: Tensor) -> Tensor:
    return (
        tensor.to(torch.promote_types(tensor.dtype, torch.float32), copy=True) if tensor.is_floating_point() else tensor
    )


def _check_same(one: Path, other: Path, ours: dict, theirs: dict, total: dict[str, Tensor], model: dict) -> None:
    fields = [name for name in {**ours, **theirs} if ours.get(name) != theirs.get(name)]
    if fields:
        raise UserError(f"{one} and {other} are not of one model: they differ in {', '.join(sorted(fields))}")
    shapes = [{name: tuple(tensor.shape) for name, tensor in state.items()} for state in (total, model)]
    different = [name for name in {**shapes[0], **shapes[1]} if shapes[0].get(name) != shapes[1].get(name)]
    if different:
        raise UserError(
            f"{one} and {other} are not of one model: {different[0]} is {shapes[0].get(different[0], 'not')} in "
            f"the one and {shapes[1].get(different[0], 'not')} in the other"
        )
