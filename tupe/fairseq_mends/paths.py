"""A checkpoint does not carry the absolute paths of the machine that wrote it."""

from __future__ import annotations

import os
from collections.abc import Collection
from typing import Any

from fairseq.trainer import Trainer

from tupe.fairseq_mends.mend import mends
from tupe.fairseq_mends.ours import our_trainer, ours


@mends(Trainer, "state_dict", "self", only_for=our_trainer)
def paths_are_names(original):
    """Nothing reads them again, but in fine-tuning the data, whose labels are compared, and where it started from."""

    def state_dict(self):
        state = original(self)
        kept = ("finetune_from_model", "data") if ours(type(self.task)) else ("finetune_from_model",)
        return {**state, "cfg": names(state["cfg"], kept)}

    return state_dict


def names(value: Any, kept: Collection[str] = ()) -> Any:
    """`value`, nested dictionaries and lists, with the last part of every absolute path, also in `a:b`.

    `kept` are keys whose values stay.
    """
    if isinstance(value, dict):
        return {key: item if key in kept else names(item, kept) for key, item in value.items()}
    if isinstance(value, list):
        return [names(item, kept) for item in value]
    if not isinstance(value, str) or "://" in value:
        return value
    parts = value.split(os.pathsep)
    return os.pathsep.join(os.path.basename(os.path.normpath(part)) if os.path.isabs(part) else part for part in parts)
