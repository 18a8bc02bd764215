"""Read the configuration of a model from a checkpoint."""

import os
from typing import Any

from omegaconf import OmegaConf

from tupe.models.config import TupeConfig, named
from tupe.util import UserError


def saved_config(state: dict[str, Any], path: str | os.PathLike) -> TupeConfig:
    """Return the configuration of the encoder in a checkpoint, with `max_positions` filled in.

    A field that `TupeConfig` does not have is left out, and one that the checkpoint does not have gets the default of
    the model's name. `state` is the output of `safe_load`.

    Raises:
        UserError: the configuration has fairseq's old form.
    """
    refuse_old_form(state, path)
    model, task = state["cfg"]["model"], state["cfg"].get("task") or {}
    usual = named(model["_name"])
    known = {field: value for field, value in model.items() if field in vars(usual)}
    merged = OmegaConf.merge(OmegaConf.structured(usual), known)  # refuses a value of another type or choice
    config = type(usual)(**OmegaConf.to_container(merged, enum_to_str=True))
    config.max_positions = config.max_positions or task.get("tokens_per_sample") or task["max_positions"]
    return config


def refuse_old_form(state: dict[str, Any], path: str | os.PathLike) -> None:
    """Raise `UserError` for settings in the form of old fairseq.

    fairseq prefers `args` to `cfg`, and evaluates texts in them as Python for models and tasks without a dataclass.
    """
    if state.get("args") is not None or "task" in ((state.get("cfg") or {}).get("task") or {}):
        raise UserError(
            f"{path} has settings of fairseq's old form (args), whose text fairseq runs as Python. Use a checkpoint "
            "that this plugin wrote."
        )
