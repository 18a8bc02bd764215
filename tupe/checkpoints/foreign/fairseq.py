"""Read a folder that fairseq released: `model.pt` with the options of its training, whose text is never run."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from torch import Tensor

from tupe.checkpoints.foreign.model import BERT, Foreign
from tupe.checkpoints.foreign.names import ENCODER, HEAD, POSITIONS, WORDS, from_fairseq
from tupe.errors import UserError
from tupe.fairseq_patches.checkpoints import saved_fields
from tupe.files import typed
from tupe.safe_load import safe_load

MADE_BY = "fairseq"
WEIGHTS, DICTIONARY = "model.pt", "dict.txt"

#: Option of fairseq's RoBERTa -> its type. They are our fields' names, save the last two.
_OPTIONS: dict[str, Any] = {
    "encoder_layers": int,
    "encoder_embed_dim": int,
    "encoder_ffn_embed_dim": int,
    "encoder_attention_heads": int,
    "activation_fn": str,
    "pooler_activation_fn": str,
    "dropout": float,
    "attention_dropout": float,
    "activation_dropout": float,
    "pooler_dropout": float,
    "quant_noise_pq": float,
    "spectral_norm_classification_head": bool,
}
_NEEDED = ("encoder_layers", "encoder_embed_dim", "encoder_ffn_embed_dim", "encoder_attention_heads")


#: The meters in the state of a training of 2019, in which nothing is that a model needs.
METERS = [
    (SimpleNamespace, f"fairseq.{module}.{name}")
    for module in ("meters", "logging.meters")
    for name in ("AverageMeter", "TimeMeter", "StopwatchMeter", "SumMeter")
]


def read(folder: Path, head: str | None = None) -> Foreign:
    """Read the model in a folder, with the one of its classification heads that is asked for.

    Raises:
        UserError: for files that are missing, damaged, with code in them, or no RoBERTa, and for a head that is not
            there.
    """
    path = folder / WEIGHTS
    state = safe_load(path, METERS)
    options = saved_fields(state.get("args")) or saved_fields(saved_fields(state.get("cfg")).get("model"))
    model = state.get("model")
    tensors = isinstance(model, dict) and all(isinstance(n, str) and isinstance(t, Tensor) for n, t in model.items())
    if not options or not tensors:
        raise UserError(f"{path} is no checkpoint of {MADE_BY}: it needs `args` or `cfg`, and `model` of tensors")
    try:
        weights = from_fairseq(model)
    except KeyError as error:
        raise UserError(f"{path} lacks {error}, which fairseq's RoBERTa has: get the file again") from None
    except (IndexError, RuntimeError) as error:
        reason = " ".join(str(error).split())[:200]
        raise UserError(f"{path}: the shapes of its weights do not fit each other ({reason})") from None
    if WORDS not in weights or POSITIONS not in weights:
        kind = options.get("_name") or options.get("arch")
        raise UserError(f"{path} is no RoBERTa of {MADE_BY} ({kind!r:.60}), whose weights begin with {ENCODER}")
    prefix = f"{HEAD}{head}."
    heads = dict.fromkeys(name[len(HEAD) :].partition(".")[0] for name in weights if name.startswith(HEAD))
    if head is not None and head not in heads:
        raise UserError(
            f"{path} has no classification head {head!r:.60}, but {', '.join(heads) or 'none'}: leave out --head"
        )
    for name in [name for name in weights if name.startswith(HEAD)]:
        tensor = weights.pop(name)
        if name.startswith(prefix):
            weights[HEAD + name[len(prefix) :]] = tensor
    left = [f"the classification head {name} (--head {name} keeps it)" for name in heads if name != head]
    foreign = Foreign(
        kind=f"RoBERTa of {MADE_BY}",
        path=path,
        fields=_fields(path, options, weights),
        weights=weights,
        rows=len(weights[POSITIONS]) + 2,
        files=[path],
        left=left,
    )
    foreign.tie()
    return foreign


def _fields(path: Path, options: dict[str, Any], weights: dict[str, Tensor]) -> dict[str, Any]:
    where, mending = f"{path}: args", "get the file again"
    known = {
        name: typed(kind, options[name], f"{where}.{name}", MADE_BY, mending)
        for name, kind in _OPTIONS.items()
        if options.get(name) is not None
    }
    lacking = [name for name in _NEEDED if name not in known]
    if lacking:
        raise UserError(f"{where} has no {lacking[0]}: it is no checkpoint of a RoBERTa")
    if known.pop("quant_noise_pq", 0) > 0:
        raise UserError(f"{path} was trained with quant_noise_pq, whose weights are rounded: it is not imported")
    if known.pop("spectral_norm_classification_head", False):
        raise UserError(f"{path} has a classification head with spectral norm, which has no counterpart here")
    if known.get("activation_fn") == "gelu_fast":
        known["activation_fn"] = "gelu_accurate"
    # in 2019 the option of this name was about the embeddings; a norm behind the last layer says what the layers are
    known["encoder_normalize_before"] = f"{ENCODER}layer_norm.weight" in weights
    return {**BERT, **known, "layer_norm_eps": 1e-5, "max_positions": len(weights[POSITIONS])}
