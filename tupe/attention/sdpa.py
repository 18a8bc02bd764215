"""Attention by PyTorch's `scaled_dot_product_attention`, which uses a fused kernel if one supports the bias."""

import torch
import torch.nn.functional as F
from torch import Tensor


def sdpa(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bias: Tensor | None,
    key_padding_mask: Tensor | None,
    scale: float,
    dropout_p: float,
) -> Tensor:
    """Like `reference`. Bias and padding become one additive mask of the query's type."""
    mask = bias
    if mask is not None:
        mask = mask.to(query.dtype)[(None,) * (4 - mask.ndim)]  # (1 or B, H, T_q, T_k)
    if key_padding_mask is not None:
        padding = key_padding_mask[:, None, None, :]
        mask = (query.new_zeros(padding.shape) if mask is None else mask).masked_fill(padding, -torch.inf)
    return F.scaled_dot_product_attention(query, key, value, attn_mask=mask, dropout_p=dropout_p, scale=scale)
