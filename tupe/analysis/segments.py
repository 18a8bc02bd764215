"""The segment attention of each head: what it adds to the logit by the segments of query and key (DIET, figure 6)."""

from argparse import Namespace
from pathlib import Path

import numpy as np

from tupe.analysis.checkpoint import Checkpoint, open_encoder
from tupe.analysis.figure import Matrices, colour_limit, heat_maps, save_figure


def has_segments(args: Namespace) -> bool:
    """Tell whether a system has segments in its attention."""
    return args.segment == "per_head"


def segment_values(checkpoint: Checkpoint) -> Matrices:
    """Return `E_S[s_i, s_j]` of every head, query by key: `(L H, 2, 2)`, or `(H, 2, 2)` where the layers share.

    The model has `segment=per_head`.
    """
    encoder = open_encoder(checkpoint)
    weight = encoder.sentence_encoder.segment_attention.weight.detach()  # (layers, heads, 2, 2)
    layers = [f"layer {layer + 1}, " for layer in range(len(weight))] if len(weight) > 1 else [""]
    heads = [f"head {head + 1}" for head in range(weight.shape[1])]
    return Matrices(weight.flatten(0, 1), [layer + head for layer in layers for head in heads], encoder.shown_as)


def plot_segments(segments: Matrices, output: str | Path) -> None:
    """Draw one square of four cells a head, with their numbers."""
    axes = ("segment of the key", "segment of the query")
    values = segments.values.numpy()
    figure = heat_maps(values, segments.names, "added to the logit", axes, columns=8, size=1.3)
    dark = 0.6 * colour_limit(values)
    for square, head in zip(figure.axes, values):
        square.set(xticks=[0, 1], yticks=[0, 1])
        for (query, key), value in np.ndenumerate(head.round(2) + 0.0):  # no -0.00
            shade = "white" if abs(value) > dark else "black"
            square.text(key, query, f"{value:.2f}", ha="center", va="center", fontsize=7, color=shade)
    save_figure(figure, output, f"Segment attention of {segments.model}")
