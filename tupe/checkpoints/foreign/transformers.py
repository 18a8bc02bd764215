"""Read a folder of Transformers' `save_pretrained`: configuration and weights."""

from pathlib import Path
from typing import Any

from torch import Tensor

from tupe.checkpoints.foreign import deberta
from tupe.checkpoints.foreign.model import BERT, Foreign
from tupe.checkpoints.foreign.names import FAMILIES, POSITIONS, SEGMENTS, from_transformers
from tupe.checkpoints.from_transformers import named_parts, read_weights
from tupe.safe_load import safe_load
from tupe.util import UserError, read_json

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
#: Kinds whose language-model head has gelu, whatever the layers have.
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
        UserError: the model computes what ours cannot, by a field of its configuration or a parameter of its layers.
    """
    path = folder / CONFIG
    config = read_json(path)
    kind = config["model_type"]
    relative_key = kind == "bert" and config.get("position_embedding_type") == "relative_key"
    _refuse(path, kind, {**config, "position_embedding_type": "absolute"} if relative_key else config)
    files, state = _weights(folder)
    state = {name: tensor.float() for name, tensor in state.items()}
    padding = config.get("pad_token_id")
    padding = (0 if kind in _ONE_SEPARATOR else 1) if padding is None else padding
    family, absolute, distances = FAMILIES[kind], not relative_key, None
    if kind == deberta.KIND:
        distances = deberta.fields(path, config)
        family, absolute = deberta.family(config), distances["absolute"] == "input"
    weights, left = from_transformers(state, family, padding, relative_key, absolute)
    fields = _fields(kind, config, weights)
    if distances is not None:
        fields |= distances
        left = deberta.fit(fields, weights, left)
    if strange := [name for name in left if f".{family.layer.partition('{}')[0]}" in f".{name}"]:
        raise UserError(f"{files[0]} has {strange[0]} in a layer, which a {kind} does not have. Merge its adapters.")
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
    if foreign.has_lm_head and kind in _GELU_HEADS:
        assert fields["activation_fn"] == "gelu", f"{path}: the language-model head has gelu, and hidden_act is another"
    return foreign, config


def _refuse(path: Path, kind: str, config: dict[str, Any]) -> None:
    """Refuse what changes the function of the weights and has no counterpart."""
    usual: dict[str, Any] = {
        "position_embedding_type": "absolute",
        "is_decoder": False,
        "add_cross_attention": False,
        "pruned_heads": {},
        "quantization_config": None,
        "sparsify": None,
        "relative_attention_num_buckets": 32,  # MPNet in Transformers computes 32 whatever it says
    }
    if kind == deberta.KIND:
        usual |= deberta.usual(config)
    for name, value in usual.items():
        if config.get(name, value) not in (value, None):
            raise UserError(f"{path}: {name} is {config[name]!r:.60}, and only {value!r} can be imported.")


def _weights(folder: Path) -> tuple[list[Path], dict[str, Tensor]]:
    """Return the files of the weights, and all tensors."""
    if any((folder / name).exists() for name in ("model.safetensors", "model.safetensors.index.json")):
        index = folder / "model.safetensors.index.json"
        return [index if index.is_file() else folder / "model.safetensors"], read_weights(folder)
    index = folder / f"{PICKLED}.index.json"
    files = named_parts(index) if index.is_file() else [folder / PICKLED]
    tensors: dict[str, Tensor] = {}
    for file in files:
        tensors.update(safe_load(file))
    return files, tensors


def _fields(kind: str, config: dict[str, Any], weights: dict[str, Tensor]) -> dict[str, Any]:
    if kind == "distilbert":
        usual = {usual: config[name] for name, usual in _DISTILBERT.items() if name in config}
        config = {**usual, **config, "layer_norm_eps": 1e-12}
    width, longest = config["hidden_size"], config.get("max_position_embeddings", 512)
    fields = {
        **BERT,
        "encoder_layers": config["num_hidden_layers"],
        "encoder_embed_dim": width,
        "encoder_attention_heads": config["num_attention_heads"],
        "encoder_ffn_embed_dim": config["intermediate_size"],
        "activation_fn": _ACTIVATIONS[config.get("hidden_act", "gelu")],
        "pooler_activation_fn": _HEAD_ACTIVATIONS.get(kind, "tanh"),
        "dropout": config.get("hidden_dropout_prob", 0.1),
        "attention_dropout": config.get("attention_probs_dropout_prob", 0.1),
        "layer_norm_eps": config.get("layer_norm_eps", _EPS.get(kind, 1e-12)),
        "max_positions": len(weights[POSITIONS]) if POSITIONS in weights else longest,
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
        fields["pooler_activation_fn"] = _ACTIVATIONS[config.get("pooler_hidden_act", "gelu")]
    elif POSITIONS not in weights:
        fields |= {"absolute": "none", "relative": "shaw", "sharing": "none"}
        fields["relative_max_distance"] = fields["max_positions"] - 1
    if kind == "mpnet":
        fields["relative"] = "bucketed"
    return fields


def _classes(config: dict[str, Any]) -> list[str] | None:
    """Return the names of the classes by their numbers; those that Transformers makes up are none."""
    names = config.get("id2label") or {}
    found = [names[str(i)] for i in range(len(names))]
    return None if found == [f"LABEL_{i}" for i in range(len(found))] else found
