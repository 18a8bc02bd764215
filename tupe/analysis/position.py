"""The learnt position correlation of every head, with the reset and without it (TUPE, figures 6 and 4)."""

from argparse import Namespace
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from tupe.analysis.checkpoint import Checkpoint, open_encoder, systems_with
from tupe.analysis.figure import heat_maps, save_figure
from tupe.analysis.heads import head_patterns, summary
from tupe.position import PositionBias
from tupe.systems import IN_LAYER
from tupe.util import UserError


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

    @property
    def summary(self) -> str:
        """How many matrices have each pattern (`tupe.analysis.heads`)."""
        return summary(head_patterns(self.values, self.reset))

    @property
    def said(self) -> list[str]:
        """The pattern of each matrix, and its theta_2 where `[CLS]` is untied."""
        patterns = [pattern.name for pattern in head_patterns(self.values, self.reset)]
        if not self.reset:
            return patterns
        return [f"{pattern}, θ₂ = {head[1, 0]:.1f}" for pattern, head in zip(patterns, self.values)]


def has_correlation(args: Namespace) -> bool:
    """Tell whether a system's positions have a correlation of their own, one for each pair of positions."""
    absolute = args.absolute not in ("none", "input", "sinusoidal")
    return (absolute or args.relative not in {"none", *IN_LAYER}) and not args.linformer_k


def has_reset(args: Namespace) -> bool:
    """Tell whether `[CLS]` is untied."""
    return args.reset != "none"


def position_correlation(checkpoint: Checkpoint, length: int | None = None) -> PositionCorrelation:
    """Return the position correlation of a checkpoint or open encoder, at all or its first `length` positions.

    Raises:
        UserError: the model has no position correlation for each pair of positions.
    """
    encoder = open_encoder(checkpoint)
    args, stack = encoder.args, encoder.sentence_encoder
    position = stack.position_bias
    length = length or args.max_positions
    if not has_correlation(args):
        raise UserError(f"{encoder.shown_as} has no position correlation. {systems_with(has_correlation)} have one.")
    tied = PositionBias(position.absolute, position.relative)
    with torch.no_grad():
        before = None if position.reset is None else tied(length).bias.detach()
        terms = position(length)
        values = terms.bias
        if terms.query is not None:  # BERT-A^d has it as one of four products
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


def plot_position(correlation: PositionCorrelation, output: str | Path) -> None:
    """Draw one square a head, named by its pattern (`tupe.analysis.heads`)."""
    titles = [f"{name}: {said}" for name, said in zip(correlation.names, correlation.said)]
    figure = heat_maps(correlation.values.numpy(), titles, "added to the logit", reset=correlation.reset)
    save_figure(figure, output, f"{correlation.title}\n{correlation.summary}")


def plot_reset(correlation: PositionCorrelation, head: int, output: str | Path) -> None:
    """Draw one head, counted from 1, without the reset and with it (TUPE, figure 4)."""
    pair = torch.stack([correlation.before[head - 1], correlation.values[head - 1]]).numpy()
    figure = heat_maps(pair, ["before the reset", "after it"], "added to the logit", reset=True)
    save_figure(figure, output, f"{correlation.title}, {correlation.names[head - 1]}")
