"""Read the configuration of a model from a checkpoint, and check all of it: a file can say anything."""

import contextlib
import os
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

from torch import Tensor

from tupe.errors import UserError
from tupe.fairseq_patches.scope import chosen
from tupe.files import typed
from tupe.models.config import CONFIGS, TupeConfig
from tupe.models.seq2seq.config import CONFIGS as TRANSLATORS
from tupe.position.registry import refuse_unregistered
from tupe.systems import SEQ2SEQ_NAMES

T = TypeVar("T")

_ENCODER = "encoder.sentence_encoder."
_MADE_BY, _MENDING = "training", "take a checkpoint from a source that you trust"


def saved_config(state: dict[str, Any], path: str | os.PathLike) -> TupeConfig:
    """Return the checked configuration of a checkpoint's model, with `max_positions` filled in.

    `state` is the output of `tupe.safe_load`.

    Raises:
        UserError: if the model is none of ours, if a field is unknown or not of its type, choices or range, or if the
            weights are not those of such a model, or not finite.
    """
    where = f"{path}: cfg"
    cfg = typed(dict[str, Any] | None, state.get("cfg"), where, _MADE_BY, _MENDING) or {}
    model, task = (
        typed(dict[str, Any] | None, cfg.get(part), f"{where}.{part}", _MADE_BY, _MENDING) or {}
        for part in ("model", "task")
    )
    refuse_old_form(state, task, path)
    name = model.get("_name")
    if name in SEQ2SEQ_NAMES:
        raise UserError(f"{path} is a translation model ({name}): give a pre-trained or fine-tuned encoder.")
    if name is None:
        raise UserError(
            f"{path} does not say what model it is of: give a checkpoint of training, not its weights alone, or import "
            "the folder of another library's model with `tupe import`."
        )
    if not isinstance(name, str) or name not in CONFIGS:
        kind = chosen("model", name)
        held = fairseq_model(name, kind) if kind else f"the model {name!r:.60}"
        raise UserError(
            f"{path} holds {held}, which is none of ours (`tupe systems` lists them): give one of ours, or convert the "
            "authors' with `tupe convert-release`."
        )
    config = _config(CONFIGS[name], model, path)
    if config.max_positions is None:
        length = task.get("tokens_per_sample") or task.get("max_positions")
        config.max_positions = typed(int, length, f"{where}.task: the length of its sequences", _MADE_BY, _MENDING)
    width = config.embedding_dim or config.encoder_embed_dim
    _check_weights(state.get("model"), _ENCODER, config.encoder_layers, width, path)
    return config


@contextlib.contextmanager
def fitting(path: str | os.PathLike, fields: Iterable[str]) -> Iterator[None]:
    """Raise `UserError` if the block loads weights that do not fit the checkpoint's model with `fields` changed."""
    try:
        yield
    except RuntimeError as error:
        if "Error(s) in loading state_dict" not in str(error):
            raise
        raise UserError(
            f"the weights of {path} do not fit the model that {', '.join(fields) or 'its configuration'} makes of it: "
            "leave out what changes its parameters, or give another checkpoint"
        ) from error


def fairseq_model(name: str, kind: type) -> str:
    """Describe a model of fairseq's: `fairseq's model roberta_base (RobertaModel)`."""
    return f"fairseq's model {name} ({kind.__name__})"


def check_translator(model: dict[str, Any], task: dict[str, Any], weights: Any, path: str | os.PathLike) -> None:
    """Check an encoder-decoder's configuration and weights: one of ours, or the sizes of fairseq's `transformer`."""
    ours = model["_name"] in TRANSLATORS
    config = vars(_config(TRANSLATORS[model["_name"]], model, path)) if ours else _sizes(model)
    for side in ("encoder", "decoder"):
        layers, width = (config.get(f"{side}_{of}") or config.get(f"encoder_{of}") for of in ("layers", "embed_dim"))
        _check_weights(weights, f"{side}.stack." if ours else f"{side}.", layers, width, path)


def saved_updates(state: dict[str, Any], path: str | os.PathLike) -> int:
    """Return how many updates the model in a checkpoint was trained for, 0 where it does not say."""
    history = state.get("optimizer_history") or [{}]
    last = typed(list[dict[str, Any]], history, f"{path}: optimizer_history", "training")[-1]
    return typed(int, last.get("num_updates", 0), f"{path}: the number of its updates", "training")


def refuse_old_form(state: dict[str, Any], task: dict[str, Any], path: str | os.PathLike) -> None:
    """Raise `UserError` for settings in the form of old fairseq.

    fairseq prefers `args` to `cfg`, and evaluates texts in them as Python for models and tasks without a dataclass.
    """
    if state.get("args") is not None or "task" in task:
        raise UserError(
            f"{path} has settings of fairseq's old form (args), whose text fairseq runs as Python: give a checkpoint "
            "of this plugin's training."
        )


def _config(kind: type[T], model: dict[str, Any], path: str | os.PathLike) -> T:
    refuse_unregistered(path, kind, model.get)
    return typed(kind, model, f"{path}: cfg.model", _MADE_BY, _MENDING)


def _sizes(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if name.endswith(("_layers", "_dim", "_heads", "_positions"))}


def _check_weights(weights: Any, part: str, layers: Any, width: Any, path: str | os.PathLike) -> None:
    """Refuse weights that are not finite or not of the configured size, before a model of that size is built.

    `part` is the prefix of the weights' names.
    """
    weights, begin = weights if isinstance(weights, dict) else {}, f"{part}layers."
    words = weights.get(f"{part}embed_tokens.weight")
    found = {name[len(begin) :].partition(".")[0] for name in weights if str(name).startswith(begin)}
    numbers = isinstance(words, Tensor) and words.is_floating_point()  # whole ones would be taken as they are
    if not numbers or words.dim() != 2 or (layers, width) != (len(found), words.shape[1]):
        raise UserError(
            f"{path} does not hold the weights of the {layers!s:.20} layers of width {width!s:.20} that its "
            "configuration names: it is damaged or not a whole checkpoint."
        )
