"""Turn the model of a checkpoint into overrides of a fine-tuning's configuration."""

from pathlib import Path

from tupe.checkpoints.load import open_checkpoint
from tupe.finetuning.settings import assignment
from tupe.models.config import TupeConfig
from tupe.systems import plain_name, system_fields

PathLike = str | Path


def model_overrides(checkpoint: PathLike) -> list[str]:
    """Return Hydra overrides with which `configs/finetuning/glue.yaml` builds the model in `checkpoint`.

    Of a generator and a discriminator that is the model of their system, which takes the discriminator on loading.
    They add every field of the system, so that `model.FIELD=VALUE` behind them overrides it. What the file says is
    checked and quoted: nothing else than these fields can come of it.

    Raises:
        UserError: if the file cannot be read, or holds no model of this plugin.
    """
    return overrides_for(open_checkpoint(checkpoint).config)


def overrides_for(config: TupeConfig) -> list[str]:
    """Like `model_overrides`, for a configuration that is already loaded."""
    fields = [assignment(f"+model.{name}", getattr(config, name)) for name in system_fields(TupeConfig)]
    name = assignment("model._name", plain_name(config._name))
    return [name, *fields, assignment("task.max_positions", config.max_positions)]
