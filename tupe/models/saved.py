"""The configuration of a model in a checkpoint, where nothing is taken on trust: a file can say anything."""

from __future__ import annotations

import dataclasses
import os
from typing import Any, Optional, Union

from torch import Tensor

from tupe.errors import UserError
from tupe.files import typed
from tupe.models.config import ABSOLUTE_CHOICES, CONFIGS, RELATIVE_CHOICES, TupeConfig
from tupe.position.own import refuse_unknown
from tupe.systems import SEQ2SEQ_NAMES

MOST = 1 << 20  # of layers, widths, positions and so on
_LAYERS, _WORDS = "encoder.sentence_encoder.layers.", "encoder.sentence_encoder.embed_tokens.weight"


def saved_config(state: dict[str, Any], path: Union[str, os.PathLike]) -> TupeConfig:
    """The checked configuration of the model that a checkpoint holds, `max_positions` filled in from its task.

    Args:
        state: of `tupe.checkpoints.safe_load`.
        path: of the file, for the messages.

    Raises:
        UserError: if the model is none of ours, or if a field is unknown, or not of its type, choices or range, or if
            the weights are not those of such a model.
    """
    where, made_by, mending = f"{path}: cfg", "training", "take a checkpoint from a source that you trust"
    cfg = typed(Optional[dict[str, Any]], state.get("cfg"), where, made_by, mending) or {}
    model, task = (
        typed(Optional[dict[str, Any]], cfg.get(part), f"{where}.{part}", made_by, mending) or {}
        for part in ("model", "task")
    )
    refuse_old_form(state, task, path)
    name = model.get("_name")
    if name in SEQ2SEQ_NAMES:
        raise UserError(f"{path} is a translation model ({name}): give a pre-trained or fine-tuned encoder.")
    if not isinstance(name, str) or name not in CONFIGS:
        raise UserError(
            f"{path} holds the model {name!r:.60}, which is none of ours (`tupe systems` lists them): give one of "
            "ours, or convert the authors' with `tupe convert-release`."
        )
    for side, known in (("absolute", ABSOLUTE_CHOICES), ("relative", RELATIVE_CHOICES)):
        refuse_unknown(path, side, model.get(side), [choice.value for choice in known])
    config = typed(CONFIGS[name], model, f"{where}.model", made_by, mending)
    if config.max_positions is None:
        length = task.get("tokens_per_sample") or task.get("max_positions")
        config.max_positions = typed(int, length, f"{where}.task: the length of its sequences", made_by, mending)
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        most = 1 if field.name.endswith("dropout") else MOST
        if isinstance(value, (int, float)) and not 0 <= value <= most:
            raise UserError(f"{where}.model: {field.name} is {value!r:.60}, which no model has: {mending}.")
    _check_weights(config, state.get("model"), path)
    return config


def refuse_old_form(state: dict[str, Any], task: dict[str, Any], path: Union[str, os.PathLike]) -> None:
    """Raises `UserError` for settings that are not of today's form.

    fairseq takes `args` before `cfg`, and of models and tasks that have no dataclass it evaluates texts as Python.
    """
    if state.get("args") is not None or "task" in task:
        raise UserError(
            f"{path} has settings of fairseq's old form (args), whose text fairseq runs as Python: give a checkpoint "
            "of this plugin's training."
        )


def _check_weights(config: TupeConfig, weights: Any, path: Union[str, os.PathLike]) -> None:
    """A model of another size would be built before its weights were found not to fit."""
    weights = weights if isinstance(weights, dict) else {}
    words = weights.get(_WORDS)
    layers = {name[len(_LAYERS) :].partition(".")[0] for name in weights if str(name).startswith(_LAYERS)}
    width = config.embedding_dim or config.encoder_embed_dim
    sizes = (config.encoder_layers, width)
    if not isinstance(words, Tensor) or words.dim() != 2 or sizes != (len(layers), words.shape[1]):
        raise UserError(
            f"{path} does not hold the weights of the {config.encoder_layers} layers of width "
            f"{width} that its configuration names: it is damaged or not a whole checkpoint."
        )
