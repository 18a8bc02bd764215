"""Attention within packed sequences: all tokens in one row, without padding."""

import torch
from torch import Tensor

from tupe.attention.biased import BACKENDS, fits_kernels
from tupe.position.terms import Terms


def takes_packed(backend: str, device: torch.device | str, dtype: torch.dtype, width: int) -> bool:
    """Return whether `packed_attention` supports this backend, device, type and width of heads."""
    device = torch.device(device)
    return (backend == "triton" and fits_kernels(device, dtype, width)) or (backend == "flex" and device.type == "cuda")


def packed_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bias: Tensor | Terms | None = None,
    *,
    cu_seqlens: Tensor,
    max_length: int,
    key_padding_mask: Tensor | None = None,
    scale: float,
    dropout_p: float = 0.0,
    training: bool = False,
    causal: bool = False,
    backend: str = "triton",
) -> Tensor:
    """Like `biased_attention`, for `B` packed sequences of `N` tokens in total; fastest if the longest come first.

    Args:
        query, key, value: `(N, H, d_h)`, of one type.
        bias: floating, broadcastable to `(B, H, T, T)`, whose first `t` rows and columns a sequence of `t` tokens
            uses; or a `Terms` for `T` positions, with `segments` `(N,)`.
        cu_seqlens: `(B + 1,)` integers, on the same device: the index of each sequence's first token, then `N`.
        max_length: `T`, at least the length of the longest sequence.
        key_padding_mask: `(N,)` bool, true at padding.
        backend: `triton` or `flex`.

    Returns:
        `(N, H, d_h)`.
    """
    if isinstance(bias, Terms) and bias.segments is not None:
        bias = bias._replace(segments=bias.segments[None])
    in_one = (x.transpose(0, 1)[None] for x in (query, key, value))  # a batch of one, (1, H, N, d_h)
    padding = None if key_padding_mask is None else key_padding_mask[None]
    dropout_p = dropout_p if training else 0.0
    out = BACKENDS[backend](*in_one, bias, padding, scale, dropout_p, causal, cu_seqlens, max_length)
    return out[0].transpose(0, 1)
