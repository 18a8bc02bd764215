"""The equation in plain PyTorch, in float32 or better: the truth that the other backends are compared with."""

from __future__ import annotations

from typing import Optional

import torch
import torch.nn.functional as F
from torch import Tensor

from tupe.position.precision import at_least_float32, no_autocast


def masked_value(dtype: torch.dtype) -> float:
    """The logit of a padded key: its weight is zero, and a row whose keys are all padding is finite."""
    return torch.finfo(dtype).min / 2


def reference(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bias: Optional[Tensor],
    key_padding_mask: Optional[Tensor],
    scale: float,
    dropout_p: float,
) -> Tensor:
    """`dropout(softmax(scale q k^T + bias)) v`; see `biased_attention`."""
    with no_autocast(query.device):
        logits = (at_least_float32(query) * scale) @ at_least_float32(key).transpose(-2, -1)  # (B, H, T_q, T_k)
        if bias is not None:
            logits = logits + bias
        if key_padding_mask is not None:
            logits = logits.masked_fill(key_padding_mask[:, None, None, :], masked_value(logits.dtype))
        weights = F.dropout(logits.softmax(-1), dropout_p)
        return (weights @ at_least_float32(value)).to(query.dtype)  # (B, H, T_q, d_h)
