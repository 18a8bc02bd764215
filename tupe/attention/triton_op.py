"""The kernels as operators of PyTorch, which `torch.compile` puts into its graph without a break.

Only compiled code uses them: a call from Python costs several times one of `torch.autograd.Function`.
"""

from typing import Any

import torch
from torch import Tensor

from tupe.attention.kernels.launch import Inputs, Launcher, Options

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
    """Compute the gradients of those tensors of `Inputs` for which `wanted` is true, in this order."""
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
