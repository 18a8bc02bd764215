"""Read a folder of Transformers' `save_pretrained`: configuration and weights."""

from pathlib import Path
from typing import Any

from torch import Tensor

from tupe.checkpoints.foreign import deberta
from tupe.checkpoints.foreign.model import BERT, Foreign
from tupe.checkpoints.foreign.names import FAMILIES, POSITIONS, RELATIVE_KEY, SEGMENTS, WORDS, from_transformers
from tupe.checkpoints.from_transformers import named_parts, read_weights
from tupe.errors import UserError
from tupe.files import read_json, typed
from tupe.safe_load import safe_load

MADE_BY = "Transformers"
CONFIG, PICKLED = "config.json", "pytorch_model.bin"

#: Activation of Transformers -> fairseq's, which compute the same.
_ACTIVATIONS = {
    "gelu": "gelu",
    "gelu_python": "gelu",
    "gelu_new": "gelu_accurate",
    "gelu_fast": "gelu_accurate",
    "gelu_pytorch_tanh": "gelu_accurate",
    "relu": "relu",
    "tanh": "tanh",
    "linear": "linear",
}
#: Language-model heads that have gelu, whatever the layers have.
_GELU_HEADS = ("roberta", "xlm-roberta", "camembert", "data2vec-text", "mpnet", "electra", "roberta-prelayernorm")
_POSITIONS = "position_embeddings.weight"
#: Fields of DistilBERT -> what the others call them.
_DISTILBERT = {
    "n_layers": "num_hidden_layers",
    "n_heads": "num_attention_heads",
    "dim": "hidden_size",
    "hidden_dim": "intermediate_size",
    "activation": "hidden_act",
    "dropout": "hidden_dropout_prob",
    "attention_dropout": "attention_probs_dropout_prob",
    "seq_classif_dropout": "classifier_dropout",
}
#: Activation of the classification head between its two layers.
_HEAD_ACTIVATIONS = {"distilbert": "relu", "electra": "gelu"}
_ONE_SEPARATOR = ("bert", "distilbert", "electra", deberta.KIND)
#: What Transformers has where `config.json` says nothing.
_EPS = {deberta.KIND: 1e-7}


def read(folder: Path) -> tuple[Foreign, dict[str, Any]]:
    """Return what a folder holds, and its `config.json`.

    Raises:
        UserError: for a model of another kind, whose attention we do not have, and for files that are missing,
            damaged, not of one model or with code in them.
    """
    path = folder / CONFIG
    config = typed(dict[str, Any], read_json(path, MADE_BY), str(path), MADE_BY)
    kind = config.get("model_type")
    if not isinstance(kind, str) or kind not in FAMILIES:
        raise UserError(
            f"{path} is of the model_type {kind!r:.60}, which has no counterpart here: {', '.join(FAMILIES)} and our "
            "own exports (tupe) are imported; DeBERTa's first version (deberta), rotary positions (ModernBERT) "
            "and layers that are repeated (ALBERT) are not"
        )
    relative_key = kind == "bert" and config.get("position_embedding_type") == "relative_key"
    _refuse(path, {**config, "position_embedding_type": "absolute"} if relative_key else config)
    files, state = _weights(folder)
    state = {name: tensor.float() if tensor.is_floating_point() else tensor for name, tensor in state.items()}
    padding = _number(path, config, "pad_token_id", 0 if kind in _ONE_SEPARATOR else 1)
    family, absolute, distances = FAMILIES[kind], not relative_key, None
    if kind == deberta.KIND:
        distances = deberta.fields(path, config)
        family, absolute = deberta.family(config), distances["absolute"] == "input"
    try:
        weights, left = from_transformers(state, family, padding, relative_key, absolute)
        if WORDS not in weights:
            raise UserError(f"{files[0]} has no table of words: it is not of {path}")
        fields = _fields(path, kind, config, weights)
        if distances is not None:
            fields |= distances
            left = deberta.fit(fields, weights, left)
    except KeyError as error:
        raise UserError(
            f"{files[0]} lacks {error}, which a {kind} has: it is not whole, or not of {path}, so get it again"
        ) from None
    except (IndexError, RuntimeError) as error:
        reason = " ".join(str(error).split())[:200]
        raise UserError(f"{files[0]}: the shapes of its weights do not fit each other ({reason})") from None
    if strange := [name for name in left if f".{family.layer.partition('{}')[0]}" in f".{name}"]:
        raise UserError(
            f"{files[0]} has {strange[0]} in a layer, where a {kind} has nothing of this name: the import would "
            "compute something else, so give a model without it, as with its adapters merged into the weights"
        )
    foreign = Foreign(
        kind=f"{kind} of Transformers",
        path=path,
        fields=fields,
        weights=weights,
        rows=len(next(t for name, t in state.items() if name.endswith(_POSITIONS))) if absolute else 0,
        files=[path, *files],
        classes=_classes(config),
        multi_label=config.get("problem_type") == "multi_label_classification",
        left=left,
    )
    foreign.tie()
    if foreign.has_lm_head and kind in _GELU_HEADS and foreign.fields["activation_fn"] != "gelu":
        raise UserError(
            f"{path}: hidden_act is {config['hidden_act']!r:.40}, but the language-model head of {kind} has gelu, and "
            "ours has the activation of the layers: such a model is not imported"
        )
    return foreign, config


def _refuse(path: Path, config: dict[str, Any]) -> None:
    """Refuse what changes the function of the weights and has no counterpart."""
    for name, usual in (
        ("position_embedding_type", "absolute"),
        ("is_decoder", False),
        ("add_cross_attention", False),
        ("pruned_heads", {}),
        ("quantization_config", None),
        ("sparsify", None),
        ("relative_attention_num_buckets", 32),  # MPNet in Transformers computes 32 whatever it says
    ):
        value = config.get(name, usual)
        if value not in (usual, None):
            raise UserError(f"{path}: {name} is {value!r:.60}, and only {usual!r} is imported")


def _weights(folder: Path) -> tuple[list[Path], dict[str, Tensor]]:
    """Return the files of the weights, and all tensors."""
    if any((folder / name).exists() for name in ("model.safetensors", "model.safetensors.index.json")):
        index = folder / "model.safetensors.index.json"
        tensors = read_weights(folder, MADE_BY)
        return [index if index.is_file() else folder / "model.safetensors"], tensors
    index, files = folder / f"{PICKLED}.index.json", [folder / PICKLED]
    if index.is_file():
        files = named_parts(index, MADE_BY)
    elif not files[0].exists():
        raise UserError(f"there is neither model.safetensors nor {PICKLED} in {folder}: get the weights too")
    tensors: dict[str, Tensor] = {}
    for file in files:
        part = safe_load(file)
        for name, value in part.items():
            numbers = isinstance(value, Tensor) and not value.is_quantized and not value.is_meta
            if not isinstance(name, str) or not numbers:
                raise UserError(
                    f"{file} holds {name!r:.60}, which is no tensor of numbers with a name: give the weights of "
                    f"{MADE_BY}, not quantised"
                )
        tensors.update(part)
    return files, tensors


def _number(path: Path, config: dict[str, Any], name: str, default: int | None = None) -> int:
    value = config.get(name)
    value = default if value is None else value
    if type(value) is not int or value < 0:
        raise UserError(f"{path}: {name} is {value!r:.60}, not a number: get the file again")
    return value


def _decimal(path: Path, config: dict[str, Any], ours: str, theirs: str, default: float) -> float:
    """Return a number of the configuration in the range that our field has."""
    return typed(float, config.get(theirs, default), f"{path}: {theirs}", MADE_BY, "get the file again")


def _fields(path: Path, kind: str, config: dict[str, Any], weights: dict[str, Tensor]) -> dict[str, Any]:
    if kind == "distilbert":
        usual = {usual: config[name] for name, usual in _DISTILBERT.items() if name in config}
        config = {**usual, **config, "layer_norm_eps": 1e-12}
    width = _number(path, config, "hidden_size")
    fields = {
        **BERT,
        "encoder_layers": _number(path, config, "num_hidden_layers"),
        "encoder_embed_dim": width,
        "encoder_attention_heads": _number(path, config, "num_attention_heads"),
        "encoder_ffn_embed_dim": _number(path, config, "intermediate_size"),
        "activation_fn": _activation(path, config, "hidden_act"),
        "pooler_activation_fn": _HEAD_ACTIVATIONS.get(kind, "tanh"),
        "dropout": _decimal(path, config, "dropout", "hidden_dropout_prob", 0.1),
        "attention_dropout": _decimal(path, config, "attention_dropout", "attention_probs_dropout_prob", 0.1),
        "layer_norm_eps": _decimal(path, config, "layer_norm_eps", "layer_norm_eps", _EPS.get(kind, 1e-12)),
        "max_positions": len(weights[POSITIONS]) if POSITIONS in weights else _longest(path, kind, config, weights),
        "encoder_normalize_before": kind == "roberta-prelayernorm",
    }
    narrow = config.get("embedding_size", width) if kind == "electra" else width
    if narrow != width:
        fields["embedding_dim"] = narrow
    if SEGMENTS in weights:
        fields["segment"] = "input"
    if kind in _ONE_SEPARATOR:
        fields["pair_separators"] = 1
    if kind == deberta.KIND:
        fields["pooler_activation_fn"] = _activation(path, config, "pooler_hidden_act")
    elif POSITIONS not in weights:
        fields |= {"absolute": "none", "relative": "shaw", "sharing": "none"}
        fields["relative_max_distance"] = fields["max_positions"] - 1
    if kind == "mpnet":
        fields["relative"] = "bucketed"
    return fields


def _activation(path: Path, config: dict[str, Any], name: str) -> str:
    activation = config.get(name, "gelu")
    if not isinstance(activation, str) or activation not in _ACTIVATIONS:
        raise UserError(f"{path}: {name} is {activation!r:.60}, and only {', '.join(_ACTIVATIONS)} are imported")
    return _ACTIVATIONS[activation]


def _longest(path: Path, kind: str, config: dict[str, Any], weights: dict[str, Tensor]) -> int:
    """Return the longest sequence without a table of positions; `relative_key` has vectors of all its distances."""
    if kind == deberta.KIND:
        return _number(path, config, "max_position_embeddings", 512)
    longest = _number(path, config, "max_position_embeddings")
    found = next(len(tensor) for name, tensor in weights.items() if name.endswith(RELATIVE_KEY))
    if found != 2 * longest - 1:
        raise UserError(
            f"{path} says max_position_embeddings {longest}, whose {2 * longest - 1} distances are not the {found} "
            "vectors of the weights: give files that belong together"
        )
    return longest


def _classes(config: dict[str, Any]) -> list[str] | None:
    """Return the names of the classes by their numbers; those that Transformers makes up are none."""
    names = config.get("id2label")
    if not isinstance(names, dict) or not all(str(i) in names for i in range(len(names))):
        return None
    found = [names[str(i)] for i in range(len(names))]
    made_up = all(name == f"LABEL_{i}" for i, name in enumerate(found))
    return None if made_up or not all(isinstance(name, str) for name in found) else found
