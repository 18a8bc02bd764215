"""Read a folder that fairseq released: `model.pt` with the options of its training, whose text is never run."""

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from torch import Tensor

from tupe.checkpoints.foreign.model import BERT, Foreign
from tupe.checkpoints.foreign.names import ENCODER, HEAD, POSITIONS, from_fairseq
from tupe.safe_load import safe_load

WEIGHTS, DICTIONARY = "model.pt", "dict.txt"

#: Options of fairseq's RoBERTa, which are our fields' names.
_OPTIONS = (
    *("encoder_layers", "encoder_embed_dim", "encoder_ffn_embed_dim", "encoder_attention_heads"),
    *("activation_fn", "pooler_activation_fn", "dropout", "attention_dropout", "activation_dropout", "pooler_dropout"),
)

#: The meters in the state of a training of 2019, in which nothing is that a model needs.
METERS = [
    (SimpleNamespace, f"fairseq.{module}.{name}")
    for module in ("meters", "logging.meters")
    for name in ("AverageMeter", "TimeMeter", "StopwatchMeter", "SumMeter")
]


def read(folder: Path, head: str | None = None) -> Foreign:
    """Read the model in a folder, with the one of its classification heads that is asked for."""
    path = folder / WEIGHTS
    state = safe_load(path, METERS)
    options = vars(state["args"]) if state.get("args") is not None else state["cfg"]["model"]
    weights = from_fairseq({name: tensor.float() for name, tensor in state["model"].items()})
    prefix = f"{HEAD}{head}."
    heads = dict.fromkeys(name[len(HEAD) :].partition(".")[0] for name in weights if name.startswith(HEAD))
    for name in [name for name in weights if name.startswith(HEAD)]:
        tensor = weights.pop(name)
        if name.startswith(prefix):
            weights[HEAD + name[len(prefix) :]] = tensor
    left = [f"the classification head {name} (--head {name} keeps it)" for name in heads if name != head]
    foreign = Foreign(
        kind="RoBERTa of fairseq",
        path=path,
        fields=_fields(options, weights),
        weights=weights,
        rows=len(weights[POSITIONS]) + 2,
        files=[path],
        left=left,
    )
    foreign.tie()
    return foreign


def _fields(options: Mapping[str, Any], weights: dict[str, Tensor]) -> dict[str, Any]:
    known = {name: options[name] for name in _OPTIONS if options.get(name) is not None}
    if known.get("activation_fn") == "gelu_fast":
        known["activation_fn"] = "gelu_accurate"
    # in 2019 the option of this name was about the embeddings; a norm behind the last layer says what the layers are
    known["encoder_normalize_before"] = f"{ENCODER}layer_norm.weight" in weights
    return {**BERT, **known, "layer_norm_eps": 1e-5, "max_positions": len(weights[POSITIONS])}
