"""What fine-tuning reads from the checkpoint that it starts from."""

from __future__ import annotations

from pathlib import Path
from typing import Union

from tupe.checkpoints.safe_load import safe_load
from tupe.errors import UserError
from tupe.models.config import CONFIGS
from tupe.systems import ELECTRA, ELECTRA_NAMES, SYSTEM_FIELDS

PathLike = Union[str, Path]


def model_overrides(checkpoint: PathLike) -> list[str]:
    """Hydra overrides with which `configs/finetuning/glue.yaml` builds the model that `checkpoint` holds.

    Of a generator and a discriminator that is the model of their system, which takes the discriminator on loading.
    They add every field of the system, so that `model.FIELD=VALUE` behind them overrides it.

    Raises:
        UserError: if the file cannot be read, or holds no model of this plugin.
    """
    cfg = safe_load(checkpoint).get("cfg") or {}
    model = cfg.get("model") or {}
    name = model.get("_name")
    if name not in CONFIGS:
        raise UserError(
            f"{checkpoint} holds the model {name!r}, which is none of ours (`tupe systems` lists them): give one of "
            "ours, or convert the authors' with `tupe convert-release`"
        )
    plain = name[len(ELECTRA) :] if name in ELECTRA_NAMES else name
    overrides = [f"model._name={plain}", *(f"+model.{f}={model[f]}" for f in SYSTEM_FIELDS if f in model)]
    task = cfg.get("task") or {}
    length = model.get("max_positions") or task.get("tokens_per_sample") or task.get("max_positions")
    return [*overrides, f"task.max_positions={length}"]
