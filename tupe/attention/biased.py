"""Attention with a bias on its logits: one function, `biased_attention`, and the choice of its backend."""

import functools
import logging
import os
from collections.abc import Callable

import torch
from torch import Tensor

from tupe.attention.factors import factors, has_only_factors, widen
from tupe.attention.flex import flex
from tupe.attention.reference import reference
from tupe.attention.sdpa import sdpa
from tupe.layers import is_transformed
from tupe.position.terms import Terms

log_once = functools.cache(logging.getLogger(__name__).info)

#: Length from which the Triton kernels use a structured bias instead of a dense one. Not measured on a GPU.
STRUCTURED_LENGTH = 2048


#: Name of a backend, as `backend=` of `biased_attention` -> its function. `tupe.attention` adds `triton`.
BACKENDS: dict[str, Callable[..., Tensor]] = {"reference": reference, "sdpa": sdpa, "factors": factors, "flex": flex}


def choose_backend(backend: str, query: Tensor, bias: Tensor | Terms | None, dropout_p: float = 0.0) -> str:
    """Return the backend to use: resolve `auto`, and replace a backend that does not support these tensors."""
    if is_transformed():  # fused kernels do not support every transform of torch.func
        return "reference"
    if backend == "triton" and not fits_kernels(query.device, query.dtype, query.shape[-1], bias):
        backend = "auto"
    if backend == "factors" and not has_only_factors(bias):
        backend = "auto"
    if backend != "auto":
        return backend
    if query.device.type != "cpu":
        return "factors" if has_only_factors(bias) else "sdpa"
    parts = bias if isinstance(bias, Terms) else (bias,)
    learns = torch.is_grad_enabled() and any(isinstance(part, Tensor) and part.requires_grad for part in parts)
    if (learns or dropout_p > 0) and query.dtype in (torch.float32, torch.float64):
        return "reference"  # SDPA does not have a fused kernel for these on a CPU
    return "sdpa"  # on a CPU `factors` takes 1.1 to 1.9 times as long


def fits_kernels(device: torch.device, dtype: torch.dtype, width: int, bias: Tensor | Terms | None = None) -> bool:
    """Return whether the Triton kernels support heads of this type and width: on a GPU, or interpreted in tests."""
    width = max(width, bias.query.shape[-1]) if isinstance(bias, Terms) and bias.query is not None else width
    runs = "triton" in BACKENDS and (device.type == "cuda" or os.environ.get("TRITON_INTERPRET") == "1")
    return runs and dtype in (torch.float16, torch.bfloat16, torch.float32) and width <= 128


def takes_parts(backend: str, terms: Terms, device: torch.device, dtype: torch.dtype, head_dim: int) -> bool:
    """Return whether to pass `terms`, the parts of a bias, to `biased_attention` instead of the dense bias.

    `device`, `dtype` and `head_dim` are those of the queries.
    """
    if backend == "triton" and fits_kernels(device, dtype, head_dim, terms):
        differ = terms.segments is not None and terms.segments.numel() > 1
        return differ or terms.length >= STRUCTURED_LENGTH
    if backend in ("auto", "triton"):  # on a GPU a fused kernel would read a dense bias once per sequence
        return has_only_factors(terms) and device.type == "cuda"
    return backend == "flex" or (backend == "factors" and has_only_factors(terms))


def biased_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bias: Tensor | Terms | None = None,
    *,
    key_padding_mask: Tensor | None = None,
    scale: float,
    dropout_p: float = 0.0,
    training: bool = False,
    causal: bool = False,
    backend: str = "auto",
) -> Tensor:
    """Compute `out_i = sum_j dropout(softmax_j(scale * q_i . k_j + bias_ij)) v_j`.

    Args:
        query: `(B, H, T_q, d_h)`, float16, bfloat16, float32 or float64.
        key, value: `(B, H, T_k, d_h)`, of the same type.
        bias: floating, broadcastable to `(B, H, T_q, T_k)`, added to the logits after scaling; -inf hides a key. Or the
            `Terms` that it is computed from: `triton`, `flex` and `factors` then use memory linear in the lengths.
        key_padding_mask: `(B, T_k)` bool, true at padding. If bias and padding hide all keys of a row, its output and
            its gradient are zero.
        scale: factor of the product of query and key, `PositionBias.scale(d_h)`, `1 / sqrt(2 d_h)` in TUPE.
        dropout_p: probability of dropping a weight; used only if `training`.
        training: whether dropout is on.
        causal: whether a query sees only the keys up to its own position; the last query sees all.
        backend: one of the following. The log reports each backend once.

            - `reference`: plain PyTorch in float32, with which the others are compared.
            - `sdpa`: PyTorch's `scaled_dot_product_attention` with the dense bias.
            - `factors`: the same with wider heads instead of a bias, if the bias has only factors; else `auto`.
            - `triton`: this project's kernels (`docs/dev/kernels.md`); `auto` where they do not run.
            - `flex`: PyTorch's FlexAttention.
            - `auto`: on a GPU `factors` or else `sdpa`; on a CPU `sdpa`, or `reference` if a bias is trained or weights
              are dropped in float32 or float64.

    Returns:
        `(B, H, T_q, d_h)` of the query's type.

    Raises:
        ValueError: for kernels whose self-check fails (a `UserError`), and for dropout with `flex`.
    """
    if key.shape[2] == 0:  # nothing to attend to
        return query.new_zeros(*query.shape[:-1], value.shape[-1])
    if isinstance(bias, Terms) and bias.theta is not None and bias.first:
        bias = bias.bias  # backends would reset the first row, which is not [CLS]'s here
    dropout_p = dropout_p if training else 0.0
    backend = choose_backend(backend, query, bias, dropout_p)
    attend = BACKENDS[backend]
    if not torch.compiler.is_compiling():
        log_once(f"attention by {backend}")
    if backend in ("triton", "flex"):
        return attend(query, key, value, bias, key_padding_mask, scale, dropout_p, causal)
    if isinstance(bias, Terms) and backend == "factors":
        (query, key), bias = widen(query, key, bias, scale), None
    elif isinstance(bias, Terms):
        bias = bias.bias
    if causal:
        bias = hide_future(query, key, bias)
    return attend(query, key, value, bias, key_padding_mask, scale, dropout_p)


def hide_future(query: Tensor, key: Tensor, bias: Tensor | None) -> Tensor:
    """Return `bias` with -inf wherever a key comes after the query; the last query sees all keys."""
    lengths = query.shape[2], key.shape[2]
    future = torch.ones(lengths, dtype=torch.bool, device=query.device).triu(1 + lengths[1] - lengths[0])
    bias = query.new_zeros(lengths) if bias is None else bias
    return bias.masked_fill(future, -torch.inf)
