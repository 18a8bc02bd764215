"""Attention in plain PyTorch, in float32 or better, with which the other backends are compared."""

import torch
from torch import Tensor

from tupe.layers import dropout, is_traced, is_transformed
from tupe.position.precision import at_least_float32, no_autocast


def reference(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bias: Tensor | None,
    key_padding_mask: Tensor | None,
    scale: float,
    dropout_p: float,
) -> Tensor:
    """Compute `dropout(softmax(scale q k^T + bias)) v`, `(B, H, T_q, d_h)`; see `biased_attention`."""
    with no_autocast(query.device):
        weights = dropout(attention_weights(query, key, bias, key_padding_mask, scale), dropout_p)
        return (weights @ at_least_float32(value)).to(query.dtype)  # (B, H, T_q, d_h)


def attention_weights(
    query: Tensor, key: Tensor, bias: Tensor | None, key_padding_mask: Tensor | None, scale: float
) -> Tensor:
    """Compute `softmax(scale q k^T + bias)`, `(B, H, T_q, T_k)`, before dropout."""
    key = at_least_float32(key).contiguous()  # otherwise the product would copy the transpose, which is slower
    logits = (at_least_float32(query) * scale) @ key.transpose(-2, -1)
    if bias is not None:
        logits = logits + bias if is_transformed() else logits.add_(bias)  # in place saves memory traffic
    if key_padding_mask is not None:
        logits.masked_fill_(key_padding_mask[:, None, None, :], -torch.inf)
    return logits.softmax(-1) if bias is None and key_padding_mask is None else softmax(logits)


def softmax(logits: Tensor) -> Tensor:
    """Apply softmax over the last dimension. A row of only -inf (all keys hidden) becomes zero, with zero gradient."""
    if not is_traced() and logits.device.type == "cpu":
        weights = logits.softmax(-1)
        if not weights[..., 0].isnan().any():  # a row of -inf gives NaN, but is rare
            return weights
    hidden = logits.isneginf().all(-1, keepdim=True)
    return logits.masked_fill(hidden, 0).softmax(-1).masked_fill(hidden, 0)
