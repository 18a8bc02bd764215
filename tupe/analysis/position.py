"""The learnt position correlation of every head (TUPE, figure 6), from a checkpoint."""

from __future__ import annotations

import math
from pathlib import Path
from typing import NamedTuple, Optional, Union

import numpy as np
import torch
from torch import Tensor

from tupe.analysis.figure import new_figure, save_figure
from tupe.checkpoints.safe_load import safe_load
from tupe.errors import UserError
from tupe.models.position import build_position_bias
from tupe.models.saved import saved_config
from tupe.models.tupe import as_namespace

_BIAS = "encoder.sentence_encoder.position_bias."


class PositionCorrelation(NamedTuple):
    """What the positions alone add to the logits before the softmax.

    values: `(H, n, n)`; `(L H, n, n)` if every layer has its own, `(L, n, n)` if the heads of a layer share one.
    names: of each of them.
    title: the model, and who shares.
    reset: whether `[CLS]` is untied.
    """

    values: Tensor
    names: list[str]
    title: str
    reset: bool


def position_correlation(checkpoint: Union[str, Path], length: Optional[int] = None) -> PositionCorrelation:
    """The position correlation that a checkpoint of this plugin holds.

    Args:
        checkpoint: pre-trained or fine-tuned.
        length: number of positions `n`, `[CLS]` included; default: all that the model has.

    Raises:
        UserError: if the file cannot be read, if its model adds the positions to the words or has none, or if `length`
            is below 2 or more than it has.
    """
    if length is not None and length < 2:
        raise UserError(f"{length} position(s) have no correlation to draw: give a length of 2 or more.")
    state = safe_load(checkpoint)
    args = as_namespace(saved_config(state, checkpoint))
    position = build_position_bias(args).eval()
    weights = {name[len(_BIAS) :]: weight.float() for name, weight in state["model"].items() if name.startswith(_BIAS)}
    try:
        position.load_state_dict(weights)
    except RuntimeError as error:
        raise UserError(
            f"the positions in {checkpoint} are not those of {args._name}: {error}".replace("\n", " ")
        ) from None
    with torch.no_grad():
        values, query, key = position(length or args.max_positions)
    if query is not None:  # BERT-A^d, where it is one of four products
        values = position.absolute.scale * query @ key.transpose(1, 2)
    if values is None:
        raise UserError(
            f"the model {args._name} in {checkpoint} has no position correlation of its own: take one with untied, "
            "low-rank, free or relative positions (`tupe systems` lists them)."
        )
    heads = [f"head {head + 1}" for head in range(args.encoder_attention_heads)]
    layers = [f"layer {layer + 1}" for layer in range(args.encoder_layers)]
    names, sharing = {
        "layer": (heads, f"shared by all {len(layers)} layers"),
        "head": (layers, f"shared by the {len(heads)} heads of a layer"),
        "none": ([f"{layer}, {head}" for layer in layers for head in heads], "not shared"),
    }[args.sharing]
    return PositionCorrelation(values, names, f"Position correlation of {args._name}, {sharing}", args.reset != "none")


def plot_position(correlation: PositionCorrelation, output: Union[str, Path]) -> None:
    """Draws one square a head on a common colour scale, white at 0; `[CLS]`, where it is untied, apart and enlarged.

    The scale ends where one cell in 200 is beyond it, those of `[CLS]` aside: these can be far from the others.

    Args:
        correlation: see `position_correlation`.
        output: the picture's file.
    """
    values = correlation.values.numpy()
    columns = min(len(values), 4)
    rows = math.ceil(len(values) / columns)
    figure = new_figure(2.8 * columns + 1, 2.8 * rows + 0.9)
    axes = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True).ravel()
    limit = np.quantile(abs(values[:, 1:, 1:] if correlation.reset else values), 0.995) or 1.0
    for head, ax in enumerate(axes):
        if head >= len(values):
            ax.set_axis_off()
            continue
        image = _draw(ax, values[head], limit, correlation.reset)
        theta = f", θ₂ = {values[head, 1, 0]:.1f}" if correlation.reset else ""
        ax.set_title(correlation.names[head] + theta, fontsize=10)
    figure.colorbar(image, ax=list(axes), label="added to the logit", extend="both")
    figure.suptitle(correlation.title)
    figure.supxlabel("key position")
    figure.supylabel("query position")
    save_figure(figure, output)


def _draw(ax, values, limit: float, reset: bool):
    """One head, `(n, m)`. Row and column 0 are drawn `strip` positions thick, with a gap, if `[CLS]` is untied."""
    queries, keys = values.shape
    style = {"cmap": "RdBu_r", "vmin": -limit, "vmax": limit, "interpolation": "nearest"}
    if not reset:
        return ax.imshow(values, **style)
    strip = max(1.0, queries / 16)
    gap = strip / 3
    left, top = -strip - gap + 0.5, -gap + 0.5  # in positions: the others start at 0.5
    image = ax.imshow(values[1:, 1:], extent=(0.5, keys - 0.5, queries - 0.5, 0.5), **style)
    ax.imshow(values[1:, :1], extent=(left, top, queries - 0.5, 0.5), **style)
    ax.imshow(values[:1, 1:], extent=(0.5, keys - 0.5, top, left), **style)
    ax.imshow(values[:1, :1], extent=(left, top, top, left), **style)
    ax.set(xlim=(left, keys - 0.5), ylim=(queries - 0.5, left))
    middle = (left + top) / 2
    ticks = [tick for tick in range(0, queries, max(1, queries // 4)) if tick > 0]
    ax.set_xticks([middle, *ticks], ["[CLS]", *map(str, ticks)])
    ax.set_yticks([middle, *ticks], ["[CLS]", *map(str, ticks)])
    return image
