"""Checks of the arguments of attention: one sentence for shapes, types and numbers that do not fit."""

import math
from numbers import Real

import torch
from torch import Tensor

from tupe.errors import UserError
from tupe.position.arguments import check_tensors

#: End of a message about shapes that would fit, were the heads in the place of the length.
HEADS_FIRST = "; heads come before the length: give query, key and value by transpose(1, 2) if they are (B, T, H, d_h)"


def check_tensors_fit(
    query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None, key_padding_mask: Tensor | None
) -> None:
    """Raise `UserError` if shapes or types do not fit together."""
    check_tensors(query=query)
    check_tensors(query, key=key, value=value)
    if (
        query.ndim != 4
        or key.shape != (*query.shape[:2], key.shape[-2], query.shape[-1])
        or value.shape[:3] != key.shape[:3]
    ):
        raise UserError(
            f"query {tuple(query.shape)}, key {tuple(key.shape)} and value {tuple(value.shape)} must be "
            "(B, H, T_q, d_h), (B, H, T_k, d_h) and (B, H, T_k, d_h)"
        )
    if not query.dtype == key.dtype == value.dtype:
        raise UserError(f"query, key and value must be of one type, but are {query.dtype}, {key.dtype}, {value.dtype}")
    if query.dtype not in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        raise UserError(f"query, key and value are {query.dtype}, but must be floating: give projected words")
    logits = (query.shape[0], query.shape[1], query.shape[2], key.shape[2])
    if bias is not None:
        check_bias(bias, logits, in_heads=True)
        check_tensors(query, bias=bias)
    if key_padding_mask is not None:
        check_tensors(query, key_padding_mask=key_padding_mask)
    if key_padding_mask is not None and key_padding_mask.dtype != torch.bool:
        raise UserError(f"key_padding_mask is {key_padding_mask.dtype}, but must be torch.bool, true at padding")
    if key_padding_mask is not None and key_padding_mask.shape != (logits[0], logits[3]):
        hint = HEADS_FIRST if key_padding_mask.shape == query.shape[:2] else ""
        raise UserError(
            f"key_padding_mask {tuple(key_padding_mask.shape)} must be (B, T_k) = {(logits[0], logits[3])}{hint}"
        )


def check_numbers(scale: object, dropout_p: object) -> None:
    """Raise `UserError` if a number cannot be its factor or its probability; a tensor's value is not looked at."""
    is_number = isinstance(scale, (Real, torch.SymFloat)) and not isinstance(scale, bool)
    is_number = is_number or (isinstance(scale, Tensor) and scale.ndim == 0)
    if not is_number or (isinstance(scale, Real) and not math.isfinite(scale)):
        raise UserError(f"scale is {scale!r:.60}, but must be a finite number: give position.scale(d_h)")
    if not isinstance(dropout_p, Real) or isinstance(dropout_p, bool) or not 0 <= float(dropout_p) <= 1:
        raise UserError(f"dropout_p is {dropout_p!r:.60}, but must be a number from 0 to 1")


def check_bias(bias: Tensor, logits: tuple[int, int, int, int], in_heads: bool = False) -> None:
    """Raise `UserError` if a bias is not floating, or does not fit logits of the shape `(B, H, T_q, T_k)`.

    With `in_heads`, for queries in four dimensions, the message says where the bias would fit them after a transpose.
    """
    if not isinstance(bias, Tensor):
        raise UserError(f"bias is a {type(bias).__name__}, but is added to the logits: give a tensor, position(n).bias")
    if not bias.is_floating_point():
        raise UserError(
            f"bias is {bias.dtype}, but is added to the logits: give padding as key_padding_mask, and hide other keys "
            "by a bias of 0 and -inf"
        )
    if not fits(bias, logits):
        batch, heads, length, num_keys = logits
        swapped = in_heads and length == num_keys and fits(bias, (batch, length, heads, heads))
        raise UserError(
            f"bias {tuple(bias.shape)} cannot be broadcast to the logits (B, H, T_q, T_k) = {logits}"
            f"{HEADS_FIRST if swapped else ''}"
        )


def fits(bias: Tensor, logits: tuple[int, int, int, int]) -> bool:
    """Tell whether a bias can be broadcast to logits of this shape."""
    return bias.ndim <= 4 and all(b in (1, n) for b, n in zip(reversed(bias.shape), reversed(logits)))
