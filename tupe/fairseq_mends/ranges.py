"""Numbers that cannot be: fairseq trains upwards at a negative rate, ends well without an update, or asserts."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from fairseq import models
from omegaconf import ListConfig

from tupe.errors import UserError
from tupe.fairseq_mends.mend import mends
from tupe.fairseq_mends.ours import before_training, builds_ours

_SHARE = (lambda x: 0 <= x <= 1), "a share, from 0 to 1"
_PART = (lambda x: 0 < x < 1), "a share above 0 and below 1"
_COUNT = (lambda x: x >= 1), "a number above 0"
_LIMIT = (lambda x: x >= 1 or x == -1), "a number above 0"  # -1 is fairseq's own for none
_RATE = (lambda x: 0 <= x < math.inf), "a number, 0 or more"
#: Whether a number can be, and what can, of fields by group.
_RANGES = {
    "model": dict.fromkeys(("dropout", "attention_dropout", "activation_dropout", "pooler_dropout"), _SHARE),
    "task": {
        "mask_prob": _PART,
        **dict.fromkeys(("leave_unmasked_prob", "random_token_prob"), _SHARE),
        **dict.fromkeys(("tokens_per_sample", "max_positions"), _COUNT),
    },
    "dataset": dict.fromkeys(("batch_size", "batch_size_valid", "max_tokens", "max_tokens_valid"), _LIMIT),
    "optimization": {"lr": _RATE, "update_freq": _COUNT},
}


def refuse_out_of_range(cfg: Any, groups: Iterable[str] = _RANGES) -> None:
    """Raises a `UserError` for a number of the configuration that is out of its range.

    Args:
        cfg: by group, a dictionary or with attributes.
        groups: to look at.
    """
    for group in groups:
        part = _get(cfg, group)
        for name, (can_be, words) in _RANGES[group].items():
            value = _get(part, name)
            for number in value if isinstance(value, (list, ListConfig)) else [value]:
                if isinstance(number, (int, float)) and not can_be(number):
                    raise UserError(f"{group}.{name} is {number}: give {words}.")
    task = _get(cfg, "task") if "task" in groups else None
    left, random = (_get(task, name) or 0 for name in ("leave_unmasked_prob", "random_token_prob"))
    if left + random > 1:
        raise UserError(f"leave_unmasked_prob and random_token_prob add up to {left + random:g}: give at most 1.")


def _get(part: Any, name: str) -> Any:
    return part.get(name) if isinstance(part, dict) else getattr(part, name, None)


@before_training
def of_training(cfg, task, model):
    """Batches and rates."""
    refuse_out_of_range(cfg, ("dataset", "optimization"))


@mends(models, "build_model", "cfg task", only_for=builds_ours)
def of_model_and_task(original):
    """Dropout, and shares of masks, which fairseq asserts when it reads the data: that is later."""

    def build_model(cfg, task, *args, **kwargs):
        refuse_out_of_range({"model": cfg, "task": getattr(task, "cfg", None)}, ["model", "task"])
        return original(cfg, task, *args, **kwargs)

    return build_model
