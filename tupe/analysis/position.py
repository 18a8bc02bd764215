"""Parameters of positions: correlation, reset, vectors and segments (TUPE, figures 4 and 6; DIET, 5 and 6).

Each function `..._maps` returns matrices of an encoder, for all positions or for the first `length`.
"""

from argparse import Namespace
from collections import Counter

import torch
import torch.nn.functional as F
from torch import Tensor

from tupe.analysis.figure import Matrices
from tupe.analysis.heads import head_patterns
from tupe.models.tupe import TupeLanguageModelEncoder as Encoder
from tupe.position import PositionBias
from tupe.systems import IN_LAYER


def has_correlation(args: Namespace) -> bool:
    """Return whether a system has a position term, one value for each pair of positions."""
    absolute = args.absolute not in ("none", "input", "sinusoidal")
    return (absolute or args.relative not in {"none", *IN_LAYER}) and not args.linformer_k


@torch.no_grad()
def position_correlation(encoder: Encoder, length: int | None = None, tied: bool = False) -> Matrices:
    """Return the position terms of the logits before the softmax, for an encoder with `has_correlation`.

    The values are `(H, n, n)`; `(L H, n, n)` if every layer has its own, `(L, n, n)` if the heads of a layer share one.
    If `tied` is true, they are the terms before the reset.
    """
    args, stack = encoder.args, encoder.sentence_encoder
    position = stack.position_bias
    if tied:
        position = PositionBias(position.absolute, position.relative)
    terms = position(length or args.max_positions)
    values = terms.bias
    if args.absolute == "untied_cross":  # BERT-A^d has it as one of four products
        product = stack.layers[0].self_attn.scale * terms.content_query @ terms.content_key.mT
        values = product if values is None else product + values
    heads = [f"head {head + 1}" for head in range(args.encoder_attention_heads)]
    layers = [f"layer {layer + 1}" for layer in range(args.encoder_layers)]
    names, sharing = {
        "layer": (heads, f"shared by all {len(layers)} layers"),
        "head": (layers, f"shared by the {len(heads)} heads of a layer"),
        "none": ([f"{layer}, {head}" for layer in layers for head in heads], "not shared"),
    }[args.sharing]
    title = f"Position correlation of {encoder.shown_as}, {sharing}"
    return Matrices(values.detach(), names, title, reset=args.reset != "none")  # a free table is a parameter


def position_maps(encoder: Encoder, length: int | None = None) -> Matrices:
    """Return the position correlation with the pattern of each head, and its theta_2 where `[CLS]` is untied."""
    found = position_correlation(encoder, length)
    patterns = head_patterns(found.values, found.reset)
    names = [f"{name}: {pattern}" for name, pattern in zip(found.names, patterns)]
    if found.reset:
        names = [f"{name}, θ₂ = {head[1, 0]:.1f}" for name, head in zip(names, found.values)]
    summary = ", ".join(f"{count} {pattern}" for pattern, count in sorted(Counter(patterns).items()))
    return found._replace(names=names, title=f"{found.title}\n{summary}")


def reset_maps(encoder: Encoder, length: int | None = None) -> Matrices:
    """Return the position correlation of each head before and after the reset of `[CLS]`."""
    before, after = (position_correlation(encoder, length, tied) for tied in (True, False))
    names = [f"{name}, {when} the reset" for name in after.names for when in ("before", "after")]
    return after._replace(values=torch.stack([before.values, after.values], 1).flatten(0, 1), names=names)


@torch.no_grad()
def similarity_maps(encoder: Encoder, length: int | None = None) -> Matrices:
    """Compute `cos(p_i, p_j)` for every table of position vectors, those of BERT or untied ones.

    For DIET-ABS the vectors are its factors, all heads side by side.
    """
    absolute = encoder.sentence_encoder.position_bias.absolute
    tables = {
        "added to the embeddings": getattr(encoder.sentence_encoder.input_positions, "weight", None),
        "untied": getattr(getattr(absolute, "table", None), "weight", None),
    }
    for name in ("query", "key"):
        factor = getattr(absolute, name, None)  # (H, n, d_p)
        if isinstance(factor, Tensor) and factor.shape[1] == encoder.args.max_positions:  # not a Linformer's mixtures
            tables[f"low rank, {name}"] = factor.transpose(0, 1).flatten(1)
    found = {name: F.normalize(table[:length], dim=1) for name, table in tables.items() if table is not None}
    cosines = torch.stack([unit @ unit.t() for unit in found.values()])
    title = f"Position vectors of {encoder.shown_as}"
    return Matrices(cosines, list(found), title, "cosine similarity", ("position", "position"))


def segment_maps(encoder: Encoder, length: int | None = None) -> Matrices:
    """Return `E_S[s_i, s_j]` of each layer and head with values of its own, `(N, 2, 2)`: query by key."""
    weight = encoder.sentence_encoder.segment_attention.weight.detach()  # (layers, heads, 2, 2)
    layers = [f"layer {layer + 1}, " for layer in range(len(weight))] if len(weight) > 1 else [""]
    heads = [f"head {head + 1}" for head in range(weight.shape[1])] if weight.shape[1] > 1 else ["all heads"]
    names = [layer + head for layer in layers for head in heads]
    title, axes = f"Segment attention of {encoder.shown_as}", ("segment of the key", "segment of the query")
    return Matrices(weight.flatten(0, 1), names, title, axes=axes)
