"""A model that was not trained here as a checkpoint of fairseq, to train on from or to load."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Optional

import torch
from torch import Tensor

from tupe.files import atomic
from tupe.models import TupeModel
from tupe.models.config import TupeConfig


def write_checkpoint(
    target: Path,
    model: TupeModel,
    name: str,
    task: Optional[dict[str, Any]] = None,
    criterion: Optional[dict[str, Any]] = None,
) -> None:
    """Writes `model` for `--restore-file`, `--finetune-from-model` and `TupeModel.from_pretrained`.

    There is no optimizer's state in it, so training that goes on from it begins its own.

    Args:
        target: the file.
        model: the model.
        name: of its architecture.
        task: configuration of the task, `masked_lm` unless it is another.
        criterion: configuration of the criterion that the task's refers to.
    """
    fields = {field: value for field, value in vars(model.args).items() if field in TupeConfig.__dataclass_fields__}
    write_weights(target, {**fields, "_name": name}, model.state_dict(), model.max_positions(), task, criterion)


def write_weights(
    target: Path,
    config: dict[str, Any],
    weights: dict[str, Tensor],
    max_positions: int,
    task: Optional[dict[str, Any]] = None,
    criterion: Optional[dict[str, Any]] = None,
    updates: int = 0,
) -> None:
    """As `write_checkpoint`, of the configuration and the weights of a model that was trained for `updates`."""
    history = {"num_updates": updates, "criterion_name": "", "optimizer_name": "", "lr_scheduler_state": {}}
    state = {
        "args": None,
        "cfg": {
            "common": {"seed": 1},
            "task": task or {"_name": "masked_lm", "data": "", "tokens_per_sample": max_positions},
            "model": config,
            **({} if criterion is None else {"criterion": criterion}),
            "bpe": None,
            "tokenizer": None,
        },
        "model": weights,
        "optimizer_history": [history],
        "extra_state": {"train_iterator": {"epoch": 1, "iterations_in_epoch": 0}},
    }
    write_state(target, state)


def write_state(target: Path, state: dict[str, Any]) -> None:
    """Writes what a checkpoint holds, atomically."""
    with atomic(target) as unfinished, unfinished.open("wb") as file:  # torch.save to a path raises RuntimeError
        torch.save(state, file)
