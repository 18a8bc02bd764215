"""A model that was not trained here as a checkpoint of fairseq, to train on from or to load."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Optional

import torch

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
    masked_lm = {"_name": "masked_lm", "data": "", "tokens_per_sample": model.max_positions()}
    history = {"num_updates": 0, "criterion_name": "", "optimizer_name": "", "lr_scheduler_state": {}}
    state = {
        "args": None,
        "cfg": {
            "common": {"seed": 1},
            "task": task or masked_lm,
            "model": {**fields, "_name": name},
            **({} if criterion is None else {"criterion": criterion}),
            "bpe": None,
            "tokenizer": None,
        },
        "model": model.state_dict(),
        "optimizer_history": [history],
        "extra_state": {"train_iterator": {"epoch": 1, "iterations_in_epoch": 0}},
    }
    with atomic(target) as unfinished, unfinished.open("wb") as file:  # torch.save to a path raises RuntimeError
        torch.save(state, file)
