"""What fine-tuning reads from the checkpoint that it starts from."""

from __future__ import annotations

from pathlib import Path
from typing import Union

from tupe.checkpoints.safe_load import safe_load
from tupe.finetuning.settings import assignment
from tupe.models.config import TupeConfig
from tupe.models.saved import saved_config
from tupe.position.own import own_options
from tupe.systems import SYSTEM_FIELDS, plain_name

PathLike = Union[str, Path]


def model_overrides(checkpoint: PathLike) -> list[str]:
    """Hydra overrides with which `configs/finetuning/glue.yaml` builds the model that `checkpoint` holds.

    Of a generator and a discriminator that is the model of their system, which takes the discriminator on loading.
    They add every field of the system, so that `model.FIELD=VALUE` behind them overrides it. What the file says is
    checked and quoted: nothing else than these fields can come of it.

    Raises:
        UserError: if the file cannot be read, or holds no model of this plugin.
    """
    return overrides_for(saved_config(safe_load(checkpoint), checkpoint))


def overrides_for(config: TupeConfig) -> list[str]:
    """The same of a configuration that was read."""
    fields = [assignment(f"+model.{name}", getattr(config, name)) for name in (*SYSTEM_FIELDS, *own_options())]
    name = assignment("model._name", plain_name(config._name))
    return [name, *fields, assignment("task.max_positions", config.max_positions)]
