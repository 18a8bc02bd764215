"""Map parameter names of fairseq and Transformers to this plugin's; the rest is reported and dropped."""

from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from tupe.models.heads import LM_HEAD

#: Of this plugin's models.
ENCODER = "encoder.sentence_encoder."
WORDS = ENCODER + "embed_tokens.weight"
POSITIONS = ENCODER + "input_positions.weight"
SEGMENTS = ENCODER + "input_segments.weight"
OUTPUT = LM_HEAD + "weight"
#: The dense layer of BERT's pooler, which a classification head starts with (`tupe.models.heads`).
POOLER = "pooler."
#: The classification head of an import, whatever it is called: the last part is `dense` or `out_proj`.
HEAD = "classification_heads."

#: Names of fairseq in 2019 -> today's, within the encoder; the TUPE authors' release has them too.
OF_2019 = {
    "emb_layer_norm.": "layernorm_embedding.",
    "emb_out_layer_norm.": "layer_norm.",
    "self_attn.in_proj_": "self_attn.qkv_proj.",
}


def todays(name: str) -> str:
    """Return the name that a parameter of fairseq's of 2019 has today."""
    for old, new in OF_2019.items():
        name = name.replace(old, new)
    return name.replace("decoder.", "encoder.", 1) if name.startswith("decoder.") else name


def from_fairseq(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the parameters of fairseq's RoBERTa, of 2019 or today, under this plugin's names.

    fairseq counts positions from 2, so that the first two rows of its table are never used.
    """
    named = {todays(name): tensor for name, tensor in state.items()}
    found = {}
    for name, tensor in named.items():
        if name == ENCODER + "embed_positions.weight":
            found[POSITIONS] = tensor[2:]
        elif ".self_attn.q_proj." in name:
            parts = [named[name.replace("q_proj", part)] for part in ("q_proj", "k_proj", "v_proj")]
            found[name.replace("q_proj", "qkv_proj")] = torch.cat(parts)
        elif not name.endswith(".version") and not any(part in name for part in (".k_proj.", ".v_proj.")):
            found[name] = tensor
    return found


class Family(NamedTuple):
    """The names of a model of Transformers."""

    base: str  # prefix of the encoder's names
    layer: str  # prefix of the names of layer `{}`
    query_key_value: tuple[str, ...]  # which we have in one
    of_layer: dict[str, str]  # the others of a layer -> this plugin's
    embeddings: dict[str, str]  # of the encoder, without positions and token types -> this plugin's
    lm_head: dict[str, str]  # outside the encoder -> this plugin's, in the language-model head
    head: tuple[str, str]  # the two layers of the classification head
    first_position: int | None  # the row of position 0; `None`: the one after the padding's


_BERT = Family(
    base="bert.",
    layer="encoder.layer.{}.",
    query_key_value=("attention.self.query.", "attention.self.key.", "attention.self.value."),
    of_layer={
        "attention.output.dense.": "self_attn.out_proj.",
        "attention.output.LayerNorm.": "self_attn_layer_norm.",
        "intermediate.dense.": "fc1.",
        "output.dense.": "fc2.",
        "output.LayerNorm.": "final_layer_norm.",
    },
    embeddings={"embeddings.word_embeddings.": "embed_tokens.", "embeddings.LayerNorm.": "layernorm_embedding."},
    lm_head={
        "cls.predictions.transform.dense.": "dense.",
        "cls.predictions.transform.LayerNorm.": "layer_norm.",
        "cls.predictions.decoder.weight": "weight",
        "cls.predictions.bias": "bias",
        "cls.predictions.decoder.bias": "bias",  # which is the one that counts, where they are not one
    },
    head=("bert.pooler.dense.", "classifier."),
    first_position=0,
)
_ROBERTA = _BERT._replace(
    base="roberta.",
    lm_head={
        "lm_head.dense.": "dense.",
        "lm_head.layer_norm.": "layer_norm.",
        "lm_head.decoder.weight": "weight",
        "lm_head.bias": "bias",
        "lm_head.decoder.bias": "bias",
    },
    head=("classifier.dense.", "classifier.out_proj."),
    first_position=None,
)

#: `model_type` -> the names of its parameters.
FAMILIES = {
    "roberta": _ROBERTA,
    "xlm-roberta": _ROBERTA,
    "camembert": _ROBERTA,
    "data2vec-text": _ROBERTA._replace(base="data2vec_text."),
    "bert": _BERT,
    "distilbert": _BERT._replace(
        base="distilbert.",
        layer="transformer.layer.{}.",
        query_key_value=("attention.q_lin.", "attention.k_lin.", "attention.v_lin."),
        of_layer={
            "attention.out_lin.": "self_attn.out_proj.",
            "sa_layer_norm.": "self_attn_layer_norm.",
            "ffn.lin1.": "fc1.",
            "ffn.lin2.": "fc2.",
            "output_layer_norm.": "final_layer_norm.",
        },
        lm_head={
            "vocab_transform.": "dense.",
            "vocab_layer_norm.": "layer_norm.",
            "vocab_projector.weight": "weight",
            "vocab_projector.bias": "bias",
        },
        head=("pre_classifier.", "classifier."),
    ),
    "mpnet": _ROBERTA._replace(
        base="mpnet.",
        query_key_value=("attention.attn.q.", "attention.attn.k.", "attention.attn.v."),
        of_layer={
            "attention.attn.o.": "self_attn.out_proj.",
            "attention.LayerNorm.": "self_attn_layer_norm.",
            "intermediate.dense.": "fc1.",
            "output.dense.": "fc2.",
            "output.LayerNorm.": "final_layer_norm.",
        },
        embeddings={**_BERT.embeddings, "encoder.relative_attention_bias.": "position_bias.relative."},
        first_position=2,
    ),
    "electra": _BERT._replace(
        base="electra.",
        embeddings={**_BERT.embeddings, "embeddings_project.": "embedding_projection."},
        lm_head={
            "generator_predictions.dense.": "dense.",
            "generator_predictions.LayerNorm.": "layer_norm.",
            "generator_lm_head.weight": "weight",
            "generator_lm_head.bias": "bias",
        },
        head=("classifier.dense.", "classifier.out_proj."),
    ),
    "roberta-prelayernorm": _ROBERTA._replace(
        base="roberta_prelayernorm.",
        of_layer={
            "attention.output.dense.": "self_attn.out_proj.",
            "attention.LayerNorm.": "self_attn_layer_norm.",
            "intermediate.dense.": "fc1.",
            "intermediate.LayerNorm.": "final_layer_norm.",
            "output.dense.": "fc2.",
        },
        embeddings={**_BERT.embeddings, "LayerNorm.": "layer_norm."},
    ),
    "modernbert": _BERT._replace(
        base="model.",
        layer="layers.{}.",
        query_key_value=("attn.Wqkv.",),
        of_layer={
            "attn.Wo.": "self_attn.out_proj.",
            "attn_norm.": "self_attn_layer_norm.",
            "mlp.Wi.": "fc1.",
            "mlp.Wo.": "fc2.",
            "mlp_norm.": "final_layer_norm.",
        },
        embeddings={
            "embeddings.tok_embeddings.": "embed_tokens.",
            "embeddings.norm.": "layernorm_embedding.",
            "final_norm.": "layer_norm.",
        },
        lm_head={"head.dense.": "dense.", "head.norm.": "layer_norm.", "decoder.": ""},
        head=("head.dense.", "classifier."),
    ),
    "deberta-v2": _BERT._replace(
        base="deberta.",
        query_key_value=("attention.self.query_proj.", "attention.self.key_proj.", "attention.self.value_proj."),
        embeddings={
            **_BERT.embeddings,
            "encoder.rel_embeddings.": "position_bias.embeddings.table.",
            "encoder.LayerNorm.": "position_bias.embeddings.layer_norm.",
        },
        lm_head={  # the second of each where `config.json` says `legacy: false`
            **_BERT.lm_head,
            "lm_predictions.lm_head.dense.": "dense.",
            "lm_predictions.lm_head.LayerNorm.": "layer_norm.",
            "lm_predictions.lm_head.bias": "bias",
        },
        head=("pooler.dense.", "classifier."),
    ),
}


def from_transformers(state: Mapping[str, Tensor], family: Family, layers: int, padding: int) -> dict[str, Tensor]:
    """Return the parameters of a masked language model of Transformers under this plugin's names.

    The vector of token type 0, which every token of a single text gets, is added to the positions; the difference of
    the other is that of the second segment. A model without absolute positions has both in its segments.

    Args:
        state: the model's.
        family: its names.
        layers: how many it has.
        padding: the number of the padding symbol, which RoBERTa counts its positions from.
    """
    found = {}
    tables = {family.base + theirs: ENCODER + ours for theirs, ours in family.embeddings.items()}
    tables |= {theirs: LM_HEAD + ours for theirs, ours in family.lm_head.items()}
    for layer in range(layers):
        theirs, ours = family.base + family.layer.format(layer), f"{ENCODER}layers.{layer}."
        tables |= {theirs + part: ours + name for part, name in family.of_layer.items()}
        qkv = [theirs + name for name in family.query_key_value]
        for of in ("weight", "bias") if f"{qkv[0]}bias" in state else ("weight",):
            found[f"{ours}self_attn.qkv_proj.{of}"] = torch.cat([state[name + of] for name in qkv])
    for name, tensor in state.items():
        for theirs, ours in tables.items():
            if name.startswith(theirs):
                found[ours + name[len(theirs) :]] = tensor
    first = padding + 1 if family.first_position is None else family.first_position
    positions = state.get(family.base + "embeddings.position_embeddings.weight")
    types = state.get(family.base + "embeddings.token_type_embeddings.weight")
    if types is not None:
        zero, one = types[0], types[min(1, len(types) - 1)]
        if positions is None:
            found[SEGMENTS] = torch.stack([zero, one])
        else:
            positions = positions + zero
            if len(types) > 1:
                found[SEGMENTS] = torch.stack([torch.zeros_like(zero), one - zero])
    if positions is not None:
        found[POSITIONS] = positions[first:]
    return found
