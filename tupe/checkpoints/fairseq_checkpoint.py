"""A model that was not trained here as a checkpoint of fairseq, to train on from or to load."""

from argparse import Namespace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from tupe.models import TupeModel
from tupe.models.config import TupeConfig
from tupe.util import atomic


def fill(model: TupeModel, state: dict[str, Tensor], may_lack: str | tuple[str, ...] = ()) -> list[str]:
    """Give a model the weights in `state`, all of them but those whose names begin with `may_lack`.

    Returns:
        the parameters that lack there and keep their initial values.
    """
    own = {name: tensor for name, tensor in model.state_dict().items() if name.startswith(may_lack)}
    model.load_state_dict({**own, **state})
    return [name for name in own if name not in state]


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
    """Write what a checkpoint holds to a new file, atomically."""
    with atomic(target) as unfinished:
        torch.save(state, unfinished)
