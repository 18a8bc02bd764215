"""Map parameter names of fairseq and Transformers to this plugin's; the rest is reported and dropped."""

import re
from collections.abc import Mapping

import torch
from torch import Tensor

from tupe.models.heads import LM_HEAD

#: Names of this plugin's parameters.
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
#: Names of fairseq's own models, which the plugin's do not have.
_ROWS, _TYPES = ENCODER + "embed_positions.weight", "token_types.weight"


def current_name(name: str) -> str:
    """Return today's name of a parameter of fairseq in 2019."""
    for old, new in OF_2019.items():
        name = name.replace(old, new)
    return name.replace("decoder.", "encoder.", 1) if name.startswith("decoder.") else name


def from_fairseq(state: Mapping[str, Tensor], first: int = 2) -> dict[str, Tensor]:
    """Return the parameters of fairseq's RoBERTa, of 2019 or today, under this plugin's names.

    `first` is the row of position 0: fairseq counts positions from 2, so that two rows of its table are never used.
    """
    named = {current_name(name): tensor for name, tensor in state.items() if not name.endswith(".version")}
    found = {}
    for name, tensor in named.items():
        if name == _ROWS:
            found[POSITIONS] = tensor[first:]
        elif ".q_proj." in name:
            found[name.replace("q_proj", "qkv_proj")] = torch.cat(
                [named[name.replace("q_proj", f"{part}_proj")] for part in "qkv"]
            )
        elif ".k_proj." not in name and ".v_proj." not in name:
            found[name] = tensor
    return found


#: Prefix of the names of a layer in Transformers, and the layer's number.
LAYER = r"(?:encoder\.layer|transformer\.layer|layers)\.(\d+)"
#: Names of Transformers, without `.weight` or `.bias` -> those of fairseq's RoBERTa.
_LAYERS = {
    r"(?:attention\.self|attention\.attn|attention)\.([qkv])(?:uery|ey|alue)?(?:_proj|_lin)?": r"self_attn.\2_proj",
    r"attn\.Wqkv": "self_attn.qkv_proj",
    r"attention\.output\.dense|attention\.out_lin|attention\.attn\.o|attn\.Wo": "self_attn.out_proj",
    r"attention\.(?:output\.)?LayerNorm|sa_layer_norm|attn_norm": "self_attn_layer_norm",
    r"intermediate\.dense|ffn\.lin1|mlp\.Wi": "fc1",
    r"output\.dense|ffn\.lin2|mlp\.Wo": "fc2",
    r"(?:output|intermediate)\.LayerNorm|output_layer_norm|mlp_norm": "final_layer_norm",
}
_NAMES = {
    **{rf"\w+\.{LAYER}\.(?:{theirs})": rf"{ENCODER}layers.\1.{ours}" for theirs, ours in _LAYERS.items()},
    r"\w+\.embeddings\.(?:word|tok)_embeddings": ENCODER + "embed_tokens",
    r"\w+\.embeddings\.position_embeddings": _ROWS.removesuffix(".weight"),
    r"\w+\.embeddings\.token_type_embeddings": _TYPES.removesuffix(".weight"),
    r"\w+\.embeddings\.(?:LayerNorm|norm)": ENCODER + "layernorm_embedding",
    r"electra\.embeddings_project": ENCODER + "embedding_projection",
    r"mpnet\.encoder\.relative_attention_bias": ENCODER + "position_bias.relative",
    r"deberta\.encoder\.rel_embeddings": ENCODER + "position_bias.embeddings.table",
    r"deberta\.encoder\.LayerNorm": ENCODER + "position_bias.embeddings.layer_norm",
    r"roberta_prelayernorm\.LayerNorm|model\.final_norm": ENCODER + "layer_norm",
    # in the language model's head, `lm_predictions.` are DeBERTa's where `config.json` says `legacy: false`
    r"cls\.predictions\.transform\.dense|(?:lm_predictions\.)?lm_head\.dense|generator_predictions\.dense|head\.dense"
    r"|vocab_transform": LM_HEAD + "dense",
    r"cls\.predictions\.transform\.LayerNorm|lm_head\.layer_norm|lm_predictions\.lm_head\.LayerNorm"
    r"|generator_predictions\.LayerNorm|head\.norm|vocab_layer_norm": LM_HEAD + "layer_norm",
    # if the head and its decoder have different biases, the decoder's is used, because it comes later in a state
    r"cls\.predictions(?:\.decoder)?|(?:lm_predictions\.)?lm_head(?:\.decoder)?|generator_lm_head|decoder"
    r"|vocab_projector": LM_HEAD.removesuffix("."),
}
#: The two layers of a classification head.
_HEAD = {r"(?:\w+\.)?pooler\.dense|classifier\.dense|pre_classifier": "dense", r"classifier(?:\.out_proj)?": "out_proj"}


def _renamed(state: Mapping[str, Tensor], names: Mapping[str, str]) -> dict[str, Tensor]:
    """Return the tensors whose names, without the last part, match a pattern of `names`, under their new names."""
    found = {}
    for name, tensor in state.items():
        path, _, part = name.rpartition(".")
        for theirs, ours in names.items():
            if match := re.fullmatch(theirs, path):
                found[f"{match.expand(ours)}.{part}"] = tensor
    return found


def head_of(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the classification head in the state of a model of Transformers: `dense.weight`, `out_proj.weight`, ..."""
    return _renamed(state, _HEAD)


def from_transformers(state: Mapping[str, Tensor], first: int) -> dict[str, Tensor]:
    """Return the parameters of a masked language model of Transformers under this plugin's names.

    Every token of a single text gets the vector of token type 0, so it is added to the positions, and subtracted from
    the vector of type 1, the second segment's. Without absolute positions, both vectors become the segments' table.
    `first` is the row of position 0.
    """
    found = from_fairseq(_renamed(state, _NAMES), first)
    types = found.pop(_TYPES, None)
    if types is not None:
        zero, one = types[0], types[min(1, len(types) - 1)]
        if POSITIONS not in found:
            found[SEGMENTS] = torch.stack([zero, one])
        else:
            found[POSITIONS] = found[POSITIONS] + zero
            if len(types) > 1:
                found[SEGMENTS] = torch.stack([torch.zeros_like(zero), one - zero])
    if LM_HEAD + "bias" not in found:  # ModernBERT's classifier has layers of the same names
        found = {name: tensor for name, tensor in found.items() if not name.startswith(LM_HEAD)}
    return found
