"""Numbers that cannot be: fairseq trains upwards at a negative rate, ends well without an update, or asserts."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from fairseq import models, tasks
from omegaconf import ListConfig

from tupe.errors import UserError
from tupe.fairseq_mends.mend import mends
from tupe.fairseq_mends.ours import before_training, builds_ours

_SHARE = (0, 1, "a share, from 0 to 1")
_COUNT = (1, math.inf, "a number above 0")
_NO_LESS = (0, math.inf, "0 or more")
#: Least, most, and both in words, of fields by group.
_RANGES = {
    "model": dict.fromkeys(("dropout", "attention_dropout", "activation_dropout", "pooler_dropout"), _SHARE),
    "task": {
        **dict.fromkeys(("mask_prob", "leave_unmasked_prob", "random_token_prob"), _SHARE),
        **dict.fromkeys(("tokens_per_sample", "max_positions"), _COUNT),
    },
    "dataset": {
        **dict.fromkeys(("batch_size", "batch_size_valid", "max_tokens", "max_tokens_valid"), _COUNT),
        "num_workers": _NO_LESS,
    },
    "optimization": {"lr": _NO_LESS, "clip_norm": _NO_LESS, "update_freq": _COUNT},
}


def refuse_out_of_range(cfg: Any, groups: Iterable[str] = _RANGES) -> None:
    """Raises a `UserError` for a number of the configuration that is out of its range.

    Args:
        cfg: by group, a mapping or with attributes.
        groups: to look at.
    """
    for group in groups:
        part = _get(cfg, group)
        for name, (least, most, words) in _RANGES[group].items():
            value = _get(part, name)
            for number in value if isinstance(value, (list, ListConfig)) else [value]:
                if isinstance(number, (int, float)) and not least <= number <= most:
                    raise UserError(f"{group}.{name} is {number}: give {words}.")


def _get(part: Any, name: str) -> Any:
    return part.get(name) if hasattr(part, "get") else getattr(part, name, None)


@before_training
def of_training(cfg, task, model):
    """Batches and rates."""
    refuse_out_of_range(cfg, ("dataset", "optimization"))


@mends(tasks, "setup_task", "cfg")
def of_the_task(original):
    """Shares of masks, which fairseq asserts when it reads the data."""

    def setup_task(cfg, *args, **kwargs):
        refuse_out_of_range({"task": cfg}, ["task"])
        return original(cfg, *args, **kwargs)

    return setup_task


@mends(models, "build_model", "cfg task", only_for=builds_ours)
def of_the_model(original):
    """Dropout."""

    def build_model(cfg, *args, **kwargs):
        refuse_out_of_range({"model": cfg}, ["model"])
        return original(cfg, *args, **kwargs)

    return build_model
