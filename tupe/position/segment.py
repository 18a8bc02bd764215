r"""Segments: which of two sentences a token belongs to, at the input (BERT) or in the attention (DIET, eq. 2).

The segments come from the tokens themselves. A pair is written `<s> a </s> </s> b </s>`: `<s> a </s>` is segment 0, and
everything from the second of the two separators on is segment 1. BERT itself has one separator between the two,
`<s> a </s> b </s>`, where `b </s>` is segment 1.
"""

import logging

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tupe.position.absolute import normal
from tupe.position.precision import at_least_float32

logger = logging.getLogger(__name__)


def segment_ids(tokens: Tensor, eos: int, separators: int = 2, pad: int = 1) -> Tensor:
    """Return which of `tokens` `(B, T)` are in segment 1: `(B, T)`, bool. `eos` is the index of the separator.

    If `separators` is 2, segment 1 starts at the second of the first two adjacent separators and ends with the row.
    Without two adjacent separators, all tokens are segment 0. If `separators` is 1, only a row with exactly two
    separators, the second at its end, is a pair: segment 1 starts after the first. Other rows are one text.
    """
    assert separators in (1, 2), f"the number of separators between two texts must be 1 or 2, got {separators}"
    separator = tokens.eq(eos)
    starts = F.pad(separator, (1, 0))[:, :-1] & (separator if separators == 2 else tokens.ne(pad))
    if separators == 1:
        starts = starts & (starts.sum(1, keepdim=True) == 1) & (separator.sum(1, keepdim=True) == 2)
    return starts.cumsum(1) > 0


def segment_bias(values: Tensor, segments: Tensor) -> Tensor:
    """Compute `values[h, s_i, s_j]`, `(B, H, T, T)`, of `values` `(H, 2, 2)` and `segments` `s` `(B, T)`, bool."""
    by_key = torch.where(segments[:, None, None, :], values[..., 1:], values[..., :1])  # (B, H, 2, T)
    return torch.where(segments[:, None, :, None], by_key[:, :, 1:], by_key[:, :, :1])


class _Segments(nn.Module):
    """Base of the segment terms: one parameter. A checkpoint without it loads as zero, which changes no output."""

    def __init__(self, *shape: int) -> None:
        super().__init__()
        self.weight = normal(*shape)
        self._register_load_state_dict_pre_hook(self._add_if_missing)

    def _add_if_missing(self, state: dict, prefix: str, *_: object) -> None:
        name = prefix + "weight"
        if name not in state:
            logger.info("%s %s starts at zero, because the checkpoint lacks segments", name, [*self.weight.shape])
            state[name] = torch.zeros_like(self.weight)


class SegmentTable(_Segments):
    """Table `E: 2 x d`, added to the token embeddings (BERT)."""

    def __init__(self, embed_dim: int) -> None:
        super().__init__(2, embed_dim)

    def forward(self, segments: Tensor) -> Tensor:
        """Return the vectors of `segments` `(B, T)`, bool: `(B, T, d)`."""
        return F.embedding(segments.long(), self.weight)


class SegmentAttention(_Segments):
    """DIET's segments: `segment(s_i, s_j) = E_S[s_i, s_j]` per head, for `num_layers` layers that share nothing."""

    def __init__(self, num_heads: int, num_layers: int = 1) -> None:
        super().__init__(num_layers, num_heads, 2, 2)
        self.head_axes = {"weight": 0}

    def forward(self) -> Tensor:
        """Return `E_S` of all layers' heads, in float32 or better: `(L H, 2, 2)`."""
        return at_least_float32(self.weight.flatten(0, 1))
