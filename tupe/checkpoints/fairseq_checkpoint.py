"""A model that was not trained here as a checkpoint of fairseq, to train on from or to load."""

from argparse import Namespace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from tupe.errors import UserError
from tupe.models import TupeModel
from tupe.models.config import TupeConfig
from tupe.util import atomic


def fill(model: TupeModel, state: dict[str, Tensor], path: Path, may_lack: str | tuple[str, ...]) -> list[str]:
    """Give a model the weights of `path`; return the parameters that lack there and keep their initial values.

    Raises:
        UserError: if the weights do not fit, or lack a parameter whose name does not begin with `may_lack`.
    """
    try:
        missing, unexpected = model.load_state_dict(state, strict=False)
    except RuntimeError as error:
        reason = " ".join(str(error).split())[:300]
        raise UserError(f"the weights of {path} do not fit its configuration: {reason}") from error
    wrong = [name for name in missing if not name.startswith(may_lack)]
    if wrong or unexpected:
        what = f"lack {wrong[0]}" if wrong else f"have {unexpected[0]}, which has no counterpart here"
        raise UserError(f"the weights of {path} {what}: give files that belong together")
    return missing


def write_checkpoint(
    target: Path,
    model: TupeModel,
    name: str,
    task: dict[str, Any] | None = None,
    criterion: dict[str, Any] | None = None,
) -> None:
    """Write `model` for `--restore-file`, `--finetune-from-model` and `TupeModel.from_pretrained`.

    There is no optimizer's state in it, so training that goes on from it begins its own. The task is `masked_lm` unless
    another is given; `name` is the architecture's.
    """
    write_weights(target, model_config(model.args, name), model.state_dict(), model.max_positions(), task, criterion)


def model_config(args: Namespace, name: str) -> dict[str, Any]:
    """Return the configuration of an encoder of the architecture `name`, without what fairseq added to its `args`."""
    fields = {field: value for field, value in vars(args).items() if field in TupeConfig.__dataclass_fields__}
    return {**fields, "_name": name}


def write_weights(
    target: Path,
    config: dict[str, Any],
    weights: dict[str, Tensor],
    max_positions: int,
    task: dict[str, Any] | None = None,
    criterion: dict[str, Any] | None = None,
    updates: int = 0,
) -> None:
    """Like `write_checkpoint`, from the configuration and the weights of a model that was trained for `updates`."""
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
    """Write what a checkpoint holds, atomically, to a new file."""
    with atomic(target) as part:
        torch.save(state, part)
