"""One attention function, several ways to compute it."""

from __future__ import annotations

from typing import Callable, Optional

from torch import Tensor

from tupe.attention.reference import reference
from tupe.attention.sdpa import sdpa
from tupe.errors import UserError

BACKENDS: dict[str, Callable[..., Tensor]] = {"reference": reference, "sdpa": sdpa}


def choose_backend(backend: str) -> Callable[..., Tensor]:
    """The function of that name; `auto` is the fastest there is. Raises `UserError` for an unknown name."""
    if backend == "auto":
        return sdpa
    if backend not in BACKENDS:
        raise UserError(f"unknown attention backend {backend!r}: choose auto or one of {', '.join(BACKENDS)}")
    return BACKENDS[backend]


def biased_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bias: Optional[Tensor] = None,
    *,
    key_padding_mask: Optional[Tensor] = None,
    scale: float,
    dropout_p: float = 0.0,
    training: bool = False,
    backend: str = "auto",
) -> Tensor:
    r"""Attention whose logits carry a bias, learnt or not.

        out_i = sum_j dropout(softmax_j(scale * q_i . k_j + bias_ij)) v_j

    Args:
        query: `(B, H, T_q, d_h)`, float16, bfloat16, float32 or float64.
        key: `(B, H, T_k, d_h)`, of the same type.
        value: `(B, H, T_k, d_h)`, of the same type.
        bias: added to the logits after scaling, broadcastable to `(B, H, T_q, T_k)`; one `(H, T_q, T_k)` for the whole
            batch is what `tupe.position.PositionBias` makes. Gradients reach it.
        key_padding_mask: `(B, T_k)` bool, true at padding. A row whose keys are all padding gives finite numbers
            without meaning.
        scale: factor of the product of query and key, `1 / sqrt(2 d_h)` in TUPE.
        dropout_p: probability with which a weight is dropped; only in training.
        training: whether dropout is on.
        backend: `auto`, `reference` (plain float32, the truth that the others are compared with) or `sdpa` (PyTorch's
            fused kernels).

    Returns:
        `(B, H, T_q, d_h)` of the query's type.

    Raises:
        UserError: for shapes that do not fit and for an unknown backend.
    """
    check_shapes(query, key, value, bias, key_padding_mask)
    attend = choose_backend(backend)
    return attend(query, key, value, bias, key_padding_mask, scale, dropout_p if training else 0.0)


def check_shapes(
    query: Tensor, key: Tensor, value: Tensor, bias: Optional[Tensor], key_padding_mask: Optional[Tensor]
) -> None:
    """Raises `UserError` with the shapes if they do not make an attention."""
    if (
        query.ndim != 4
        or key.shape != (*query.shape[:2], key.shape[-2], query.shape[-1])
        or value.shape[:3] != key.shape[:3]
    ):
        raise UserError(
            f"query {tuple(query.shape)}, key {tuple(key.shape)} and value {tuple(value.shape)} must be "
            "(B, H, T_q, d_h), (B, H, T_k, d_h) and (B, H, T_k, d_h)"
        )
    logits = (*query.shape[:3], key.shape[2])
    if bias is not None and (
        bias.ndim > 4 or any(b not in (1, n) for b, n in zip(reversed(bias.shape), reversed(logits)))
    ):
        raise UserError(f"bias {tuple(bias.shape)} cannot be broadcast to the logits (B, H, T_q, T_k) = {logits}")
    if key_padding_mask is not None and key_padding_mask.shape != (logits[0], logits[3]):
        raise UserError(f"key_padding_mask {tuple(key_padding_mask.shape)} must be (B, T_k) = {(logits[0], logits[3])}")
