"""Attention by the Triton kernels, as differentiable operators of PyTorch. The import needs Triton."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from tupe.attention.kernels.launch import Inputs, Launcher, Options
from tupe.position.terms import Terms

#: `Inputs` and `Options` in the language of PyTorch's schemas.
_INPUTS = ", ".join(f"Tensor{'?' if name in Inputs._field_defaults else ''} {name}" for name in Inputs._fields)
_OPTIONS = "float scale, float dropout_p, bool causal, SymInt max_length"
_NUMBER = len(Inputs._fields)


@torch.library.custom_op("tupe::attention", mutates_args=(), schema=f"({_INPUTS}, {_OPTIONS}) -> (Tensor, Tensor)")
def attention_op(*arguments: Any) -> tuple[Tensor, Tensor]:
    """Compute the output `(B, T_q, H, d_h)` and the log-sum-exp `(B, H, T_q)` for `Inputs` and `Options`."""
    return Launcher(Inputs(*arguments[:_NUMBER]), Options(*arguments[_NUMBER:])).forward()


@attention_op.register_fake
def _(query: Tensor, *_: object) -> tuple[Tensor, Tensor]:
    batch, heads, length, width = query.shape
    return query.new_empty(batch, length, heads, width), query.new_empty(batch, heads, length, dtype=torch.float32)


@torch.library.custom_op(
    "tupe::attention_backward",
    mutates_args=(),
    schema=f"({_INPUTS}, Tensor out, Tensor lse, Tensor d_out, bool[] wanted, {_OPTIONS}) -> Tensor[]",
)
def backward_op(*arguments: Any) -> list[Tensor]:
    """Compute the gradients of the `Inputs` for which `wanted` is true, in their order."""
    out, lse, d_out, wanted, *options = arguments[_NUMBER:]
    launcher = Launcher(Inputs(*arguments[:_NUMBER]), Options(*options))
    gradients = launcher.backward(out, lse, d_out, Inputs._make(wanted))
    return [g.contiguous() for g, flag in zip(gradients, wanted) if flag]  # pyright: ignore[reportOptionalMemberAccess]


@backward_op.register_fake
def _(*arguments: Any) -> list[Tensor]:
    wanted = arguments[_NUMBER + 3]  # after out, lse and d_out
    return [torch.empty_like(t, memory_format=torch.contiguous_format) for t, flag in zip(arguments, wanted) if flag]


def setup_context(ctx, inputs: tuple, output: tuple[Tensor, Tensor]) -> None:
    ctx.options = inputs[_NUMBER:]
    ctx.save_for_backward(*inputs[:_NUMBER], *output)


def backward(ctx, d_out: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
    wanted = list(ctx.needs_input_grad[:_NUMBER])
    gradients = iter(backward_op(*ctx.saved_tensors, d_out, wanted, *ctx.options))
    return (*(next(gradients) if flag else None for flag in wanted), *(None for _ in ctx.options))


attention_op.register_autograd(backward, setup_context=setup_context)


class Attention(torch.autograd.Function):
    """`attention_op` as an autograd function: calls of the operators from Python take three times as long."""

    @staticmethod
    def forward(ctx, options: Options, *tensors: Tensor | None) -> Tensor:
        out, lse = Launcher(Inputs._make(tensors), options).forward()
        ctx.save_for_backward(*tensors, out, lse)
        ctx.options = options
        return out.transpose(1, 2)

    @staticmethod
    @once_differentiable
    def backward(ctx, d_out: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        *inputs, out, lse = ctx.saved_tensors
        wanted = Inputs._make(ctx.needs_input_grad[1:])
        return (None, *Launcher(Inputs._make(inputs), ctx.options).backward(out, lse, d_out.transpose(1, 2), wanted))


def triton_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bias: Tensor | Terms | None,
    key_padding_mask: Tensor | None,
    scale: float,
    dropout_p: float,
    causal: bool = False,
    cu_seqlens: Tensor | None = None,
    max_length: int = 0,
) -> Tensor:
    """Like `reference`, or, if `cu_seqlens` is set, `packed_attention` in a batch of one: `(1, H, N, d_h)`."""
    width = value.shape[-1]
    value = value if query.shape[-1] == width else F.pad(value, (0, query.shape[-1] - width))  # PoPE's keys are wider
    query, key, value = (x if x.stride(-1) == 1 else x.contiguous() for x in (query, key, value))
    pos_q = pos_k = relative = theta = segment = segments = None
    if isinstance(bias, Terms):
        bias = bias.expand(query.shape[1])
        parts = bias.query, bias.key, bias.relative, bias.theta, bias.segment, bias.segments
        pos_q, pos_k, relative, theta, segment, segments = (x if x is None else x.contiguous() for x in parts)
        segments = None if segments is None else segments.view(torch.uint8)
        bias = None
        pos_q, pos_k = (None if x is None else x.to(query.dtype) for x in (pos_q, pos_k))
        theta = None if theta is None else theta[1].contiguous()
    elif bias is not None:
        bias = bias[(None,) * (4 - bias.ndim)]
    padding = None if key_padding_mask is None else key_padding_mask.contiguous().view(torch.uint8)
    seed = torch.randint(2**63 - 1, (1,), device=query.device) if dropout_p > 0 else None
    starts = None if cu_seqlens is None else cu_seqlens.to(torch.int32).contiguous()
    inputs = Inputs(query, key, value, bias, pos_q, pos_k, relative, theta, segment, segments, padding, seed, starts)
    if torch.compiler.is_compiling():
        return attention_op(*inputs, scale, dropout_p, causal, max_length)[0].transpose(1, 2)[..., :width]
    return Attention.apply(Options(scale, dropout_p, causal, max_length), *inputs)[..., :width]
