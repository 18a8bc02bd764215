"""Attention of packed sequences, which lie side by side without padding. Only the Triton kernels compute it."""

import torch
from torch import Tensor

from tupe.attention.arguments import check_bias, check_numbers
from tupe.attention.biased import triton
from tupe.attention.triton_support import obstacle
from tupe.errors import UserError
from tupe.position.arguments import check_flags, check_tensors
from tupe.position.structured import StructuredBias


def packed_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bias: Tensor | StructuredBias | None = None,
    *,
    cu_seqlens: Tensor,
    max_length: int,
    key_padding_mask: Tensor | None = None,
    scale: float,
    dropout_p: float = 0.0,
    training: bool = False,
    causal: bool = False,
) -> Tensor:
    """Like `biased_attention`, for `B` packed sequences of `N` tokens in all; fastest when the longest come first.

    Args:
        query, key, value: `(N, H, d_h)`, of one type.
        bias: floating, broadcastable to `(B, H, T, T)`, of which a sequence of `t` tokens takes the first `t` rows and
            columns; or a `StructuredBias` for `T` positions, with `segments` `(N,)`.
        cu_seqlens: `(B + 1,)` integers, on the same device: the index of each sequence's first token, then `N`.
        max_length: `T`, at least the length of the longest sequence.
        key_padding_mask: `(N,)` bool, true at padding.

    Returns:
        `(N, H, d_h)`.

    Raises:
        UserError: for shapes or types that do not fit, and where the kernels cannot run.
    """
    check_tensors(query=query)
    check_tensors(query, key=key, value=value, cu_seqlens=cu_seqlens)
    if not torch.compiler.is_compiling():  # numbers in a graph may be symbols
        check_numbers(scale, dropout_p)
        check_flags(training=training, causal=causal)
    if query.ndim != 3 or not query.shape == key.shape == value.shape or not query.dtype == key.dtype == value.dtype:
        found = ", ".join(f"{tuple(x.shape)} {x.dtype}" for x in (query, key, value))
        raise UserError(f"query, key and value must be (N, H, d_h) of one type, but are {found}")
    missing = obstacle(query, value, bias, packed=True)
    if missing is not None:
        raise UserError(f"attention of sequences side by side: {missing}; pad them and call biased_attention")
    if cu_seqlens.ndim != 1 or len(cu_seqlens) < 2 or cu_seqlens.is_floating_point():
        raise UserError(f"cu_seqlens {tuple(cu_seqlens.shape)} {cu_seqlens.dtype} must be (B + 1,) integers")
    (tokens, heads, _), batch = query.shape, len(cu_seqlens) - 1
    masks = {"key_padding_mask": key_padding_mask}
    if isinstance(bias, StructuredBias):
        masks["StructuredBias.segments"] = segments = bias.segments
        # `check` expects the segments of a padded batch
        bias = bias._replace(segments=None if segments is None else segments[:1].expand(batch, max_length))
        bias.check(batch, heads, max_length, max_length, query)
        bias = bias._replace(segments=None if segments is None else segments[None])
    elif bias is not None:
        check_bias(bias, (batch, heads, max_length, max_length))
        check_tensors(query, bias=bias)
    for name, mask in masks.items():
        if mask is not None:
            check_tensors(query, **{name: mask})
        if mask is not None and (mask.shape != (tokens,) or mask.dtype != torch.bool):
            raise UserError(f"{name} {tuple(mask.shape)} {mask.dtype} must be {(tokens,)} torch.bool")
    in_one = (x.transpose(0, 1)[None] for x in (query, key, value))  # a batch of one, (1, H, N, d_h)
    padding = None if key_padding_mask is None else key_padding_mask[None]
    dropout_p = dropout_p if training else 0.0
    return triton(*in_one, bias, padding, scale, dropout_p, causal, cu_seqlens, max_length)[0].transpose(0, 1)
