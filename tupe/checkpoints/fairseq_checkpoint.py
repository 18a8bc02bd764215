"""A model that was not trained here as a checkpoint of fairseq, to train on from or to load; and such, loaded."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Optional

import torch
from fairseq import checkpoint_utils
from fairseq.tasks import FairseqTask
from torch import Tensor, nn

from tupe.errors import UserError
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


def load_models(
    checkpoints: list[Path], data: Path, state: Optional[dict[str, Any]] = None, **settings: int
) -> tuple[list[nn.Module], FairseqTask]:
    """The models in some checkpoints, on the CPU, and their task.

    Args:
        checkpoints: whose configurations were checked.
        data: folder with the dictionaries.
        state: what the one checkpoint holds, where that is not in its file.
        settings: of the task, other than the checkpoints'.

    Raises:
        UserError: if a dictionary is damaged, or the weights do not fit it or the configuration.
    """
    names = [str(path) for path in checkpoints]
    try:
        overrides = {"data": str(data), **settings}
        models, _, task = checkpoint_utils.load_model_ensemble_and_task(names, overrides, state=state)
    except UserError:
        raise
    except Exception as error:  # PyTorch's, of weights that do not fit; fairseq's own, of a damaged dictionary
        reason = " ".join(str(error).split())[:300] or type(error).__name__
        raise UserError(f"{', '.join(names)} cannot be loaded with the data {data}: {reason!r}.") from error
    return models, task
