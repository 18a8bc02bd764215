"""The learnt position correlation of every head, with the reset and without it (TUPE, figures 6 and 4)."""

from argparse import Namespace
from collections import Counter
from typing import NamedTuple

import torch
from torch import Tensor

from tupe.analysis.figure import Matrices
from tupe.analysis.heads import head_patterns
from tupe.models.tupe import TupeLanguageModelEncoder
from tupe.position import PositionBias
from tupe.systems import IN_LAYER


class PositionCorrelation(NamedTuple):
    """What the positions alone add to the logits before the softmax."""

    # `(H, n, n)`; `(L H, n, n)` if every layer has its own, `(L, n, n)` if the heads of a layer share one
    values: Tensor
    names: list[str]  # of each of them
    title: str  # the model, and who shares
    before: Tensor | None = None  # as `values`, without the reset; `None` where `[CLS]` is tied

    @property
    def reset(self) -> bool:
        """Whether `[CLS]` is untied."""
        return self.before is not None


def has_correlation(args: Namespace) -> bool:
    """Tell whether a system's positions have a correlation of their own, one for each pair of positions."""
    absolute = args.absolute not in ("none", "input", "sinusoidal")
    return (absolute or args.relative not in {"none", *IN_LAYER}) and not args.linformer_k


def has_reset(args: Namespace) -> bool:
    """Tell whether `[CLS]` is untied."""
    return args.reset != "none"


@torch.no_grad()
def position_correlation(encoder: TupeLanguageModelEncoder, length: int | None = None) -> PositionCorrelation:
    """Return the position correlation of an encoder that has one, at all or its first `length` positions."""
    args, stack = encoder.args, encoder.sentence_encoder
    position = stack.position_bias
    length = length or args.max_positions
    before = PositionBias(position.absolute, position.relative)(length).bias if has_reset(args) else None
    terms = position(length)
    values = terms.bias
    if args.absolute == "untied_cross":  # BERT-A^d has it as one of four products
        product = stack.layers[0].self_attn.scale * terms.query @ terms.key.mT
        values = product if values is None else product + values
    heads = [f"head {head + 1}" for head in range(args.encoder_attention_heads)]
    layers = [f"layer {layer + 1}" for layer in range(args.encoder_layers)]
    names, sharing = {
        "layer": (heads, f"shared by all {len(layers)} layers"),
        "head": (layers, f"shared by the {len(heads)} heads of a layer"),
        "none": ([f"{layer}, {head}" for layer in layers for head in heads], "not shared"),
    }[args.sharing]
    # a free table is a parameter
    return PositionCorrelation(values.detach(), names, f"Position correlation of {encoder.shown_as}, {sharing}", before)


def position_maps(encoder: TupeLanguageModelEncoder, length: int | None = None) -> Matrices:
    """Return the position correlation with the pattern of each head, and its theta_2 where `[CLS]` is untied."""
    found = position_correlation(encoder, length)
    patterns = head_patterns(found.values, found.reset)
    names = [f"{name}: {pattern.name}" for name, pattern in zip(found.names, patterns)]
    if found.reset:
        names = [f"{name}, θ₂ = {head[1, 0]:.1f}" for name, head in zip(names, found.values)]
    counts = Counter(pattern.name for pattern in patterns)
    summary = ", ".join(f"{count} {name}" for name, count in sorted(counts.items()))
    return Matrices(found.values, names, f"{found.title}\n{summary}", reset=found.reset)


def reset_maps(encoder: TupeLanguageModelEncoder, length: int | None = None) -> Matrices:
    """Return the position correlation of each head before and after the reset of `[CLS]`."""
    found = position_correlation(encoder, length)
    pairs = torch.stack([found.before, found.values], 1).flatten(0, 1)
    names = [f"{name}, {when} the reset" for name in found.names for when in ("before", "after")]
    return Matrices(pairs, names, found.title, reset=True)
