"""Attention with relative positions added to the values (Shaw et al. 2018, eq. 3)."""

from torch import Tensor

from tupe.attention.biased import hide_future
from tupe.attention.reference import attention_weights
from tupe.layers import dropout
from tupe.position import ShawRelative
from tupe.position.precision import at_least_float32, no_autocast


def attention_with_relative_values(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bias: Tensor,
    relative: ShawRelative,
    *,
    key_padding_mask: Tensor | None,
    scale: float,
    dropout_p: float,
    training: bool,
    causal: bool = False,
) -> Tensor:
    """Compute `out_i = sum_j w_ij (v_j + a^V[j - i])` with `w = dropout(softmax(scale q k^T + bias))`.

    Arguments and result are those of `tupe.attention.biased_attention`. No fused kernel computes this: memory holds the
    weights, `(B, H, n, n)` in float32, and twice as much for the weights by distance.
    """
    with no_autocast(query.device):
        if causal:
            bias = hide_future(query, key, bias)
        weights = dropout(attention_weights(query, key, bias, key_padding_mask, scale), dropout_p, training)
        out = weights @ at_least_float32(value) + relative.weighted_values(weights)
    return out.to(query.dtype)
