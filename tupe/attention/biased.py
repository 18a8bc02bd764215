"""Attention with a bias on its logits: one function, `biased_attention`, and the choice of its backend."""

import logging
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from tupe.attention.arguments import check_numbers, check_tensors_fit
from tupe.attention.factors import factors, factors_obstacle, widen
from tupe.attention.reference import reference
from tupe.attention.sdpa import sdpa
from tupe.attention.triton_support import obstacle, only_plain_kernels
from tupe.errors import UserError
from tupe.position.arguments import check_flags
from tupe.position.structured import StructuredBias
from tupe.tracing import is_transformed

logger = logging.getLogger(__name__)
logged: set[str] = set()


def triton(*arguments: Any) -> Tensor:
    """Compute attention with the Triton kernels, with the arguments of `triton_attention`."""
    from tupe.attention.triton_attention import triton_attention  # needs Triton

    return triton_attention(*arguments)


#: The name of a backend, for `backend=` of `biased_attention` -> its function.
BACKENDS: dict[str, Callable[..., Tensor]] = {
    "reference": reference,
    "sdpa": sdpa,
    "triton": triton,
    "factors": factors,
}


def choose_backend(
    backend: str,
    query: Tensor,
    value: Tensor,
    bias: Tensor | StructuredBias | None,
    padded: bool,
    dropout_p: float = 0.0,
) -> Callable[..., Tensor]:
    """Choose the function that computes attention for these tensors. Raise `UserError` for an unknown `backend`."""
    if backend not in ("auto", *BACKENDS):
        raise UserError(f"unknown attention backend {backend!r}: choose auto or one of {', '.join(BACKENDS)}")
    if is_transformed():
        return reference
    if backend in ("reference", "sdpa"):
        return BACKENDS[backend]
    if backend == "factors" or (backend == "auto" and only_plain_kernels(query.device, query.dtype)):
        no_factors = factors_obstacle(bias)
        if no_factors is None:
            missing = "" if backend == "factors" else f": {obstacle(query, value, bias, backend)}"
            log_once(f"attention by PyTorch's, the bias in wider heads{missing}")
            return factors
        if backend == "factors":
            log_once(f"attention not in wider heads: {no_factors}")
            backend = "auto"
    missing = obstacle(query, value, bias, backend)
    if missing is not None and backend == "auto" and plain_is_faster(query, bias, dropout_p):
        log_once(f"attention by plain PyTorch, the fastest on the CPU for a bias that learns or dropout: {missing}")
        return reference
    if missing is not None:
        log_once(f"attention by PyTorch's scaled_dot_product_attention: {missing}")
        return sdpa
    if backend == "auto" and bias is None and not padded:
        return sdpa  # FlashAttention, which takes neither bias nor padding
    in_parts = isinstance(bias, StructuredBias)
    log_once(f"attention by the Triton kernels{', a structured bias: memory linear in the length' if in_parts else ''}")
    return triton


def plain_is_faster(query: Tensor, bias: Tensor | StructuredBias | None, dropout_p: float) -> bool:
    """Tell whether this is a CPU on which SDPA has no fused kernel, so that `reference` is faster."""
    parts = bias if isinstance(bias, StructuredBias) else (bias,)
    learns = torch.is_grad_enabled() and any(part is not None and part.requires_grad for part in parts)
    whole = query.dtype in (torch.float32, torch.float64)
    return query.device.type == "cpu" and whole and (learns or dropout_p > 0)


def log_once(message: str) -> None:
    if not torch.compiler.is_compiling() and message not in logged:
        logged.add(message)
        logger.log(logging.WARNING if "tupe doctor" in message else logging.INFO, message)


def biased_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bias: Tensor | StructuredBias | None = None,
    *,
    key_padding_mask: Tensor | None = None,
    scale: float,
    dropout_p: float = 0.0,
    training: bool = False,
    causal: bool = False,
    backend: str = "auto",
) -> Tensor:
    r"""Compute attention with a bias, learnt or not, added to the logits.

        out_i = sum_j dropout(softmax_j(scale * q_i . k_j + bias_ij)) v_j

    Args:
        query: `(B, H, T_q, d_h)`, float16, bfloat16, float32 or float64.
        key: `(B, H, T_k, d_h)`, of the same type.
        value: `(B, H, T_k, d_v)`, of the same type. Fused kernels want one width, so narrower values are padded.
        bias: floating, broadcastable to `(B, H, T_q, T_k)`, added to the logits after scaling; -inf hides a key. It
            gets gradients. `tupe.position.PositionBias` makes one `(H, T_q, T_k)` for the whole batch. A
            `StructuredBias` (`tupe.position`) takes memory linear in the lengths on the backends `triton` and
            `factors`; the others build the dense tensor.
        key_padding_mask: `(B, T_k)` bool, true at padding. If bias and padding hide all keys of a row, its output and
            its gradient are zero.
        scale: factor of the product of query and key, `PositionBias.scale(d_h)`, `1 / sqrt(2 d_h)` in TUPE.
        dropout_p: probability with which a weight is dropped; only in training.
        training: whether dropout is on.
        causal: whether a query sees only the keys up to its own position; the last query sees all.
        backend: one of these; the log says once which of them computes.

            - `reference`: plain PyTorch in float32, with which the others are compared.
            - `sdpa`: PyTorch's fused kernels.
            - `triton`: this project's kernels (`docs/dev/kernels.md`), or `sdpa` where these cannot run or are wrong.
            - `factors`: wider heads (`tupe/attention/factors.py`) for a `StructuredBias` without values by distance;
              `auto` for any other bias.
            - `auto`: on a GPU with bias or padding, `triton` where its kernels passed their check (`tupe doctor`), else
              `factors` where the bias allows it; on a CPU, `reference` where a bias learns or dropout is on; else
              `sdpa`.

    Returns:
        `(B, H, T_q, d_v)` of the query's type.

    Raises:
        UserError: for shapes, types, numbers or flags that do not fit, and for an unknown backend.
    """
    check_tensors_fit(query, key, value, None if isinstance(bias, StructuredBias) else bias, key_padding_mask)
    if isinstance(bias, StructuredBias):
        bias.check(query.shape[0], query.shape[1], query.shape[2], key.shape[2], query)
    if not torch.compiler.is_compiling():  # numbers in a graph may be symbols
        check_numbers(scale, dropout_p)
        check_flags(training=training, causal=causal)
    if causal and query.shape[2] > key.shape[2]:
        raise UserError(f"causal attention needs a key for each query, but has {query.shape[2]} and {key.shape[2]}")
    if key.shape[2] == 0:  # nothing to attend to
        return value.new_zeros(*query.shape[:3], value.shape[3])
    dropout_p = dropout_p if training else 0.0
    width = value.shape[-1]
    narrow = width < query.shape[-1]
    attend = choose_backend(backend, query, query if narrow else value, bias, key_padding_mask is not None, dropout_p)
    if narrow and attend is not reference:
        value = F.pad(value, (0, query.shape[-1] - width))
    if attend is triton:
        out = attend(query, key, value, bias, key_padding_mask, scale, dropout_p, causal)
        return out[..., :width] if narrow else out
    if isinstance(bias, StructuredBias) and attend is factors:
        (query, key), bias = widen(query, key, bias, scale), None
    elif isinstance(bias, StructuredBias):
        bias = bias.dense(key.shape[2])
    if causal:
        bias = hide_future(query, key, bias)
    out = attend(query, key, value, bias, key_padding_mask, scale, dropout_p)
    return out[..., :width] if narrow else out


def hide_future(query: Tensor, key: Tensor, bias: Tensor | None) -> Tensor:
    """Return `bias` with -inf wherever a key comes after the query; the last query sees all keys."""
    lengths = query.shape[2], key.shape[2]
    future = torch.ones(lengths, dtype=torch.bool, device=query.device).triu(1 + lengths[1] - lengths[0])
    bias = query.new_zeros(lengths) if bias is None else bias
    return bias.masked_fill(future, -torch.inf)
