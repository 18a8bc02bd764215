"""Translate names of our configuration and parameters to those of Transformers, and back."""

import ast
from pathlib import Path
from typing import Any

from tupe.models.config import TupeConfig

_SHIPPED = ast.parse((Path(__file__).parents[1] / "transformers/configuration_tupe.py").read_text("utf-8"))


def _shipped_choices() -> dict[str, tuple[str, ...]]:
    """Read `CHOICES` of the configuration that is shipped, whose import would need Transformers."""
    (value,) = (n.value for n in _SHIPPED.body if isinstance(n, ast.Assign) and n.targets[0].id == "CHOICES")
    return ast.literal_eval(value)


def _shipped_fields() -> list[str]:
    """List the fields of the configuration that is shipped."""
    (config,) = (node for node in _SHIPPED.body if isinstance(node, ast.ClassDef))
    return [node.target.id for node in config.body if isinstance(node, ast.AnnAssign)]


#: Field of `TupeConfig` -> name in `config.json`: what is usual there, else ours.
FIELDS = {
    "encoder_embed_dim": "hidden_size",
    "encoder_layers": "num_hidden_layers",
    "encoder_attention_heads": "num_attention_heads",
    "encoder_ffn_embed_dim": "intermediate_size",
    "activation_fn": "hidden_act",
    "pooler_activation_fn": "pooler_act",
    "dropout": "hidden_dropout_prob",
    "attention_dropout": "attention_probs_dropout_prob",
    "activation_dropout": "activation_dropout",
    "pooler_dropout": "classifier_dropout",
    "max_positions": "max_position_embeddings",
    **{name: name for name in _shipped_fields() if name in TupeConfig.__dataclass_fields__},
}

ACTIVATIONS = ("gelu", "gelu_accurate", "gelu_fast", "relu", "tanh", "linear")

#: What Transformers' model can compute: a term without a twin in `tupe/transformers/` is not exported.
CHOICES = {**_shipped_choices(), "activation_fn": ACTIVATIONS, "pooler_activation_fn": ACTIVATIONS}

#: What `config.json` says in other words.
SAID_OTHERWISE = ("_name", "untie_weights_roberta")

AUTO_MAP = {
    "AutoConfig": "configuration_tupe.TupeConfig",
    "AutoModel": "modeling_tupe.TupeModel",
    "AutoModelForMaskedLM": "modeling_tupe.TupeForMaskedLM",
    "AutoModelForSequenceClassification": "modeling_tupe.TupeForSequenceClassification",
    "AutoModelForTokenClassification": "modeling_tupe.TupeForTokenClassification",
    "AutoModelForQuestionAnswering": "modeling_tupe.TupeForQuestionAnswering",
}

#: Of the task of a model that answers questions: how its contexts are cut, and its answers.
WINDOWS = ("doc_stride", "max_query", "max_answer")

#: The output embeddings, which are the input's unless a model says otherwise.
OUTPUT_EMBEDDINGS = "encoder.lm_head.weight"


def config_fields(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of `TupeConfig` in `fields` as in `config.json`."""
    older = {"gelu_fast": "gelu_accurate"}  # fairseq's older name
    return {theirs: older.get(fields[ours], fields[ours]) for ours, theirs in FIELDS.items() if ours in fields}


def model_fields(config: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of `TupeConfig` from `config.json`."""
    return {ours: config[theirs] for ours, theirs in FIELDS.items() if theirs in config}


def _prefixes(head: str | None) -> list[tuple[str, str]]:
    prefixes = [
        ("encoder.sentence_encoder.", "tupe."),
        (OUTPUT_EMBEDDINGS, "lm_head.decoder.weight"),
        ("encoder.lm_head.bias", "lm_head.decoder.bias"),
        ("encoder.lm_head.", "lm_head."),
        ("span_head.", "qa_outputs."),
    ]
    return prefixes if head is None else [*prefixes, (f"classification_heads.{head}.", "classifier.")]


def to_theirs(name: str, head: str | None) -> str:
    """Return a parameter's name in `model.safetensors`; `head` is the classification head that is exported."""
    return next((theirs + name[len(ours) :] for ours, theirs in _prefixes(head) if name.startswith(ours)), name)


def to_ours(name: str, head: str | None) -> str:
    """Return a parameter's name in the fairseq model."""
    return next((ours + name[len(theirs) :] for ours, theirs in _prefixes(head) if name.startswith(theirs)), name)
