"""The named systems of the papers and their sizes: ONE table, name -> fields of the model's configuration.

A model is `<system>_<size>`, for `--arch` and for Hydra's `model._name`: `tupe_base`, `bert_ad_small`. Any field can be
overridden on the command line, so a combination that no paper named is a flag away.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any, NamedTuple

Fields = dict[str, str | int | float | bool]


class Choice(NamedTuple):
    """A choice of a field: its text in `--help` and, for a term, its part of the logit in `tupe describe`."""

    help: str = ""
    equation: str = ""


#: Field -> its choices. A new term is a row here, a file in `tupe/position/` that registers it, and a test.
CHOICES: dict[str, dict[str, Choice]] = {
    "absolute": {
        "none": Choice(),
        "input": Choice("added to the token embeddings (BERT)"),
        "untied": Choice("untied from the content (TUPE)", "(p_i U^Q)(p_j U^K)^T/sqrt(2d)"),
        "untied_cross": Choice("untied, with both content-position terms"),
        "low_rank": Choice("DIET's factors", "P_Q[i] . P_K[j]"),
        "low_rank_input": Choice("DIET's factors, and BERT's table added to the embeddings", "P_Q[i] . P_K[j]"),
        "free": Choice("a free value per pair of positions", "V[i, j]"),
    },
    "relative": {
        "none": Choice(),
        "bucketed": Choice("T5's buckets", "b[bucket(j - i)]"),
        "clipped": Choice("one value per distance up to the maximum", "b[clip(j - i)]"),
        "unbinned": Choice("one value per distance (DIET)", "R[j - i]"),
        "parametric": Choice("products of learned vectors", "(r_(j-i) F^Q)(r_(j-i) F^K)^T"),
        "shaw": Choice("vectors added to the keys (Shaw et al.)", "a[clip(j - i)]"),
        "deberta": Choice("content-to-position and position-to-content (DeBERTa)", "P[i - j]"),
        "pope": Choice("polar queries and keys, content in their length and position in their angle (PoPE)"),
        "dual_triangle": Choice("half of the heads attend to the past, half to the future", "mask_h(j - i)"),
        "alibi": Choice("a slope times the distance, fixed or learned (ALiBi)", "-m |j - i|"),
        "kerple": Choice("log distance, with learned height and rate (KERPLE)", "-p log(1 + a |j - i|)"),
        "fire": Choice("a learned function of the log distance (FIRE)", "f(±min(1, log(1 + c |j - i|)/log(1 + c L)))"),
    },
    "relative_sides": {
        "symmetric": Choice("one slope for both sides"),
        "learned": Choice("a learned slope per side"),
    },
    "reset": {
        "none": Choice(),
        "paper": Choice("as in the paper"),
        "release": Choice("as in the authors' release, with relative values for the reset cells"),
    },
    "segment": {
        "none": Choice(),
        "input": Choice("added to the token embeddings"),
        "per_head": Choice("added to the logits of every head"),
    },
    "sharing": {
        "none": Choice("no sharing"),
        "layer": Choice("shared by all layers"),
        "head": Choice("shared by the heads of a layer"),
    },
}


def explained(choices: Mapping[str, Choice]) -> str:
    """Format choices for the help of their field: `none; bucketed: T5's buckets`."""
    return "; ".join(f"{name}: {choice.help}" if choice.help else name for name, choice in choices.items())


#: Relative terms that depend on the content, so that each layer computes its own.
IN_LAYER = frozenset({"shaw", "deberta", "pope"})

#: Choices of an encoder-decoder: absolute terms of its stacks, and positions in its cross-attention.
SEQ2SEQ_ABSOLUTE = {
    "none": CHOICES["absolute"]["none"],
    "sinusoidal": Choice("added to the token embeddings, fixed"),
    **{name: CHOICES["absolute"][name] for name in ("input", "untied", "low_rank")},
}
CROSS_POSITION = {
    "none": Choice(),
    "diagonal": Choice("T5's relative buckets"),
    "low_rank": Choice("DIET's factors with a table for each side"),
    "untied": Choice("untied positions of both sides"),
}

#: Fields of older files that no model reads any more -> the value at which the field had no effect.
REMOVED: dict[str, object] = {
    "rotary_reset": False,
    "rotary_scaling": "none",
    "randomised_positions": 0,
    "log_length": 0,
    "decoder_absolute": "same",
    "decoder_relative": "same",
    "decoder_sharing": "same",
    "deberta_terms": "c2p+p2c",
    "deberta_projections": "shared",
    "deberta_index": "code",
}


def _system(absolute: str, relative: str, reset: str = "none", **others: str | int) -> Fields:
    usual = {"segment": "none", "sharing": "layer", "linformer_k": 0, "rotary_dims": 0}
    return {"absolute": absolute, "relative": relative, "reset": reset, **usual, **others}


#: system -> its name in the papers, and fields of its position encoding; `tupe describe` prints its logit. Sources:
#: TUPE, section 4 and its ablation; DIET, sections 3 and 4; then terms of later papers, alone and with TUPE's.
_NAMED: dict[str, tuple[str, Fields]] = {
    "tupe_r": ("TUPE-R", _system("untied", "bucketed", "paper")),
    "tupe_a": ("TUPE-A", _system("untied", "none", "paper")),
    "tupe_a_tie_cls": ("TUPE-A^tie-cls", _system("untied", "none")),
    "bert_a": ("BERT-A", _system("input", "none")),
    "bert_r": ("BERT-R", _system("input", "bucketed")),
    "bert_ad": ("BERT-A^d", _system("untied_cross", "none")),
    "t5": ("Raffel et al.", _system("none", "bucketed", segment="input")),
    "shaw": ("Shaw et al.", _system("none", "shaw", segment="input", sharing="none")),
    "deberta": (
        "DeBERTa",
        _system("none", "deberta", segment="input", relative_buckets=256, relative_max_distance=512),
    ),
    "diet_rel": ("DIET-REL", _system("none", "unbinned", segment="per_head", sharing="none")),
    "diet_abs": ("DIET-ABS", _system("low_rank", "none", segment="per_head", position_rank=128)),
    "linformer": ("Linformer", _system("input", "none", segment="input", linformer_k=32)),
    "diet_abs_lin": ("DIET-ABS^LIN", _system("low_rank", "none", segment="input", position_rank=64, linformer_k=32)),
    "alibi": ("ALiBi, symmetric", _system("none", "alibi", segment="input", relative_sides="symmetric")),
    "alibi_learned": ("ALiBi, learned slopes", _system("none", "alibi", segment="input", relative_sides="learned")),
    "bialibi": ("ALiBi with reset", _system("none", "alibi", "paper", segment="input", relative_sides="learned")),
    "kerple": ("KERPLE-log", _system("none", "kerple", segment="input")),
    "fire": ("FIRE", _system("none", "fire", segment="input")),
    "tupe_a_kerple": ("TUPE-A with KERPLE-log", _system("untied", "kerple", "paper")),
    "rope": ("RoPE", _system("none", "none", segment="input", rotary_dims=-1)),
    "tupe_a_rope": ("TUPE-A with RoPE", _system("untied", "none", "paper", rotary_dims=-1)),
    "pope": ("PoPE", _system("none", "pope", segment="input")),
    "dual_triangle": ("Dual Triangle Attention", _system("none", "dual_triangle", segment="input")),
}
PAPER_NAMES = {system: paper for system, (paper, _) in _NAMED.items()}
SYSTEMS = {system: fields for system, (_, fields) in _NAMED.items()}


#: Fields for how far a term reaches. A system keeps its name at any value of these.
EXTENT = ("relative_buckets", "relative_max_distance")


def system_of(fields: Mapping[str, object]) -> str | None:
    """Return the system whose row agrees with a model's fields; `None` if no row does."""

    def agrees(row: Fields) -> bool:
        return all(fields.get(field) == value for field, value in row.items() if field not in EXTENT)

    return next((name for name, row in SYSTEMS.items() if agrees(row)), None)


#: Other names of a system: the paper's best, TUPE-R, is the plain `tupe_*`.
ALIASES: dict[str, str] = {"tupe": "tupe_r"}


def _size(layers: int, width: int, heads: int) -> Fields:
    return {
        "encoder_layers": layers,
        "encoder_embed_dim": width,
        "encoder_ffn_embed_dim": 4 * width,
        "encoder_attention_heads": heads,
    }


#: ModernBERT's block (Warner et al. 2024), for any system: windows of 128 except in every third layer.
MODERN: Fields = {
    "encoder_normalize_before": True,
    "no_first_norm": True,
    "no_biases": True,
    "gated": True,
    "attention_window": 64,
    "global_every": 3,
    "rotary_base": 160_000.0,
    "local_rotary_base": 10_000.0,
}

#: size -> layers, width, heads. `small` is DIET's BERT-small (its table 1); `tiny` is for trying things on a CPU.
SIZES: dict[str, Fields] = {
    "tiny": _size(4, 128, 4),
    "small": _size(4, 512, 8),
    "base": _size(12, 768, 12),
    "large": _size(24, 1024, 16),
    "modern_tiny": {**_size(6, 128, 4), "encoder_ffn_embed_dim": 192, **MODERN},
    "modern_base": {**_size(22, 768, 12), "encoder_ffn_embed_dim": 1152, **MODERN},
}


#: ELECTRA's sizes (Clark et al. 2020, table 6), with the generator's width as a fraction; `tiny` is this project's.
ELECTRA_SIZES: dict[str, Fields] = {
    "tiny": {**SIZES["tiny"], "generator_size": 1 / 2},
    "small": {**_size(12, 256, 4), "embedding_dim": 128, "generator_size": 1 / 4},
    "base": {**SIZES["base"], "generator_size": 1 / 3},
    "large": {**SIZES["large"], "generator_size": 1 / 4},
}

#: Prefix of the names of models with a generator and a discriminator.
ELECTRA = "electra_"


def _named(prefix: str, sizes: dict[str, Fields]) -> dict[str, Fields]:
    systems = {**SYSTEMS, **{alias: SYSTEMS[name] for alias, name in ALIASES.items()}}
    models = {f"{prefix}{name}_{size}": {**row, **sizes[size]} for name, row in systems.items() for size in sizes}
    for fields in models.values():
        if fields["relative"] == "dual_triangle":  # the paper splits a head into two of half the width
            fields["encoder_attention_heads"] *= 2
        if fields["linformer_k"]:  # its keys mix all positions, so none is outside a window
            fields["attention_window"] = 0
    return models


#: Every masked language model, for `--arch` and `model._name` -> its fields that differ from the defaults.
MODELS = _named("", SIZES)

#: Every ELECTRA model. Generator and discriminator share the table of untied positions, if there is one.
ELECTRAS = {
    name: {**row, "share_positions": "table" if str(row["absolute"]).startswith("untied") else "none"}
    for name, row in _named(ELECTRA, ELECTRA_SIZES).items()
}


def _translates(name: str, **others: str | int) -> Fields:
    return {**SYSTEMS[name], "reset": "none", "segment": "none", **others}


#: system -> fields of both stacks of an encoder-decoder, which has no `[CLS]` to untie and no segments. The baselines
#: are Vaswani et al.'s; Shaw's distance and values are those of their translation (DIET, section 4; Shaw et al., 3.2).
SEQ2SEQ_SYSTEMS: dict[str, Fields] = {
    "sinusoidal": _system("sinusoidal", "none"),
    "learned": _system("input", "none"),
    "none": _system("none", "none"),
    "shaw": _translates("shaw", relative_max_distance=16, shaw_values=True),
    "t5": _translates("t5"),
    "diet_rel": _translates("diet_rel"),
    "diet_abs": _translates("diet_abs"),
    "tupe_a": _translates("tupe_a"),
    "tupe_r": _translates("tupe_r"),
    "rope": _translates("rope"),
}

#: size -> layers of each stack, width, heads, feed-forward width. `base` and `big` are Vaswani et al.'s, `iwslt` is
#: fairseq's for IWSLT14, `tiny` is Wu et al.'s for Multi30k (Revisit-MMT).
SEQ2SEQ_SIZES: dict[str, Fields] = {
    "tiny": {**_size(4, 128, 4), "encoder_ffn_embed_dim": 256},
    "iwslt": {**_size(6, 512, 4), "encoder_ffn_embed_dim": 1024},
    "base": _size(6, 512, 8),
    "big": _size(6, 1024, 16),
}


#: Every encoder-decoder.
TRANSLATORS = {
    f"seq2seq_{name}_{size}": {**fields, **SEQ2SEQ_SIZES[size]}
    for name, fields in SEQ2SEQ_SYSTEMS.items()
    for size in SEQ2SEQ_SIZES
}


def setting(default: object, help: str, **metadata: str) -> Any:
    """Make a dataclass field with this default and this help text of its flag."""
    return dataclasses.field(default=default, metadata={"help": help, **metadata})


def system_fields(*configs: type, kind: str = "") -> tuple[str, ...]:
    """List the fields that define a system: a model with other values computes another function of its parameters.

    Args:
        configs: dataclasses of models, whose fields have `system` in their metadata.
        kind: only fields with this mark: `"encoding"` for the positions, or `"structure"`.
    """
    marked = ((f.name, f.metadata.get("system", "")) for config in configs for f in dataclasses.fields(config))
    return tuple(dict.fromkeys(name for name, mark in marked if mark and mark.startswith(kind)))
