"""The segment attention of each head: what it adds to the logit by the segments of query and key (DIET, figure 6)."""

from argparse import Namespace

from tupe.analysis.figure import Matrices
from tupe.models.tupe import TupeLanguageModelEncoder


def has_segments(args: Namespace) -> bool:
    """Tell whether a system has segments in its attention."""
    return args.segment == "per_head"


def segment_values(encoder: TupeLanguageModelEncoder) -> Matrices:
    """Return `E_S[s_i, s_j]` of every head, query by key: `(L H, 2, 2)`, or `(H, 2, 2)` where the layers share.

    The model has `segment=per_head`.
    """
    weight = encoder.sentence_encoder.segment_attention.weight.detach()  # (layers, heads, 2, 2)
    layers = [f"layer {layer + 1}, " for layer in range(len(weight))] if len(weight) > 1 else [""]
    names = [f"{layer}head {head + 1}" for layer in layers for head in range(weight.shape[1])]
    title, axes = f"Segment attention of {encoder.shown_as}", ("segment of the key", "segment of the query")
    return Matrices(weight.flatten(0, 1), names, title, axes=axes)
