"""The kernels as operators of PyTorch, which `torch.compile` puts into its graph without a break.

Only compiled code uses them: a call from Python costs several times one of `torch.autograd.Function`.
"""

from typing import Any

import torch
from torch import Tensor

from tupe.attention.kernels.launch import Inputs, Launcher, Options


@torch.library.custom_op("tupe::attention", mutates_args=())
def attention_op(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bias: Tensor | None,
    pos_q: Tensor | None,
    pos_k: Tensor | None,
    relative: Tensor | None,
    theta: Tensor | None,
    segment: Tensor | None,
    segments: Tensor | None,
    padding: Tensor | None,
    seed: Tensor | None,
    starts: Tensor | None,
    scale: float,
    dropout_p: float,
    causal: bool,
    max_length: int,
) -> tuple[Tensor, Tensor]:
    """Compute the output `(B, T_q, H, d_h)` and the log-sum-exp `(B, H, T_q)` for the tensors of `Inputs`."""
    inputs = Inputs(query, key, value, bias, pos_q, pos_k, relative, theta, segment, segments, padding, seed, starts)
    return Launcher(inputs, Options(scale, dropout_p, causal, max_length)).forward()


@attention_op.register_fake
def _(query: Tensor, *_: object) -> tuple[Tensor, Tensor]:
    batch, heads, length, width = query.shape
    return query.new_empty(batch, length, heads, width), query.new_empty(batch, heads, length, dtype=torch.float32)


@torch.library.custom_op("tupe::attention_backward", mutates_args=())
def backward_op(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bias: Tensor | None,
    pos_q: Tensor | None,
    pos_k: Tensor | None,
    relative: Tensor | None,
    theta: Tensor | None,
    segment: Tensor | None,
    segments: Tensor | None,
    padding: Tensor | None,
    seed: Tensor | None,
    starts: Tensor | None,
    out: Tensor,
    lse: Tensor,
    d_out: Tensor,
    wanted: list[bool],
    scale: float,
    dropout_p: float,
    causal: bool,
    max_length: int,
) -> list[Tensor]:
    """Compute the gradients of those tensors of `Inputs` for which `wanted` is true, in this order."""
    inputs = Inputs(query, key, value, bias, pos_q, pos_k, relative, theta, segment, segments, padding, seed, starts)
    launcher = Launcher(inputs, Options(scale, dropout_p, causal, max_length))
    gradients = launcher.backward(out, lse, d_out, Inputs._make(wanted))
    return [g.contiguous() for g, flag in zip(gradients, wanted) if flag]  # pyright: ignore[reportOptionalMemberAccess]


@backward_op.register_fake
def _(*arguments: Any) -> list[Tensor]:
    wanted = arguments[len(Inputs._fields) + 3]  # out, lse and d_out stand between
    return [torch.empty_like(t, memory_format=torch.contiguous_format) for t, flag in zip(arguments, wanted) if flag]


def setup_context(ctx, inputs: tuple, output: tuple[Tensor, Tensor]) -> None:
    *tensors, ctx.scale, ctx.dropout_p, ctx.causal, ctx.max_length = inputs
    ctx.save_for_backward(*tensors, *output)


def backward(ctx, d_out: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
    wanted = list(ctx.needs_input_grad[: len(Inputs._fields)])
    options = ctx.scale, ctx.dropout_p, ctx.causal, ctx.max_length
    gradients = iter(backward_op(*ctx.saved_tensors, d_out, wanted, *options))
    return (*(next(gradients) if flag else None for flag in wanted), None, None, None, None)


attention_op.register_autograd(backward, setup_context=setup_context)
