"""The named systems of the papers and their sizes: ONE table, name -> fields of the model's configuration.

A model is `<system>_<size>`, for `--arch` and for Hydra's `model._name`: `tupe_base`, `bert_ad_small`. Any field can be
overridden on the command line, so a combination that no paper named is a flag away.
"""

from __future__ import annotations

from typing import Union

Fields = dict[str, Union[str, int, float, bool]]

#: system -> the position encoding. Sources: TUPE, section 4 and its ablation.
SYSTEMS: dict[str, Fields] = {
    "tupe_r": {"absolute": "untied", "relative": "bucketed", "reset": "paper"},
    "tupe_a": {"absolute": "untied", "relative": "none", "reset": "paper"},
    "tupe_a_tie_cls": {"absolute": "untied", "relative": "none", "reset": "none"},
    "bert_a": {"absolute": "input", "relative": "none", "reset": "none"},
    "bert_r": {"absolute": "input", "relative": "bucketed", "reset": "none"},
    "bert_ad": {"absolute": "untied_cross", "relative": "none", "reset": "none"},
}

#: system -> what it is called in the paper, and its logit (content is x_i W^Q (x_j W^K)^T throughout).
DESCRIPTIONS: dict[str, tuple[str, str]] = {
    "tupe_r": ("TUPE-R", "content/sqrt(2d) + reset(untied absolute/sqrt(2d) + T5 relative)"),
    "tupe_a": ("TUPE-A", "content/sqrt(2d) + reset(untied absolute/sqrt(2d))"),
    "tupe_a_tie_cls": ("TUPE-A^tie-cls", "content/sqrt(2d) + untied absolute/sqrt(2d)"),
    "bert_a": ("BERT-A", "content/sqrt(d), positions added to the words"),
    "bert_r": ("BERT-R", "content/sqrt(d) + T5 relative, positions added to the words"),
    "bert_ad": ("BERT-A^d", "all four products of words and untied positions/sqrt(4d)"),
}

#: Other names of a system: the paper's best is the plain `tupe_*`.
ALIASES: dict[str, str] = {"tupe": "tupe_r"}


def _size(layers: int, width: int, heads: int) -> Fields:
    return {
        "encoder_layers": layers,
        "encoder_embed_dim": width,
        "encoder_ffn_embed_dim": 4 * width,
        "encoder_attention_heads": heads,
    }


#: size -> layers, width, heads. `small` is DIET's BERT-small (its table 1); `tiny` is for trying things on a CPU.
SIZES: dict[str, Fields] = {
    "tiny": _size(4, 128, 4),
    "small": _size(4, 512, 8),
    "base": _size(12, 768, 12),
    "large": _size(24, 1024, 16),
}


def named_models() -> dict[str, Fields]:
    """Every model name with the fields in which it differs from the defaults."""
    systems = {**SYSTEMS, **{alias: SYSTEMS[name] for alias, name in ALIASES.items()}}
    return {f"{name}_{size}": {**fields, **SIZES[size]} for name, fields in systems.items() for size in SIZES}
