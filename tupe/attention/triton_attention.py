"""Attention by the Triton kernels: a differentiable function like the other backends'. Its import needs Triton."""

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from tupe.attention.kernels.launch import Inputs, Launcher, Options
from tupe.attention.triton_op import attention_op
from tupe.position.structured import StructuredBias


class Attention(torch.autograd.Function):
    """The kernels as an autograd function, with gradients for query, key, value and the parts of the bias."""

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
    bias: Tensor | StructuredBias | None,
    key_padding_mask: Tensor | None,
    scale: float,
    dropout_p: float,
    causal: bool = False,
    cu_seqlens: Tensor | None = None,
    max_length: int = 0,
) -> Tensor:
    """Like `reference`, by the Triton kernels. Dropout takes its seed from PyTorch's generator (`torch.manual_seed`).

    With `cu_seqlens`, the sequences are packed as for `packed_attention`, in a batch of one: `(1, H, N, d_h)`.
    """
    query, key, value = (x if x.stride(-1) == 1 else x.contiguous() for x in (query, key, value))
    pos_q = pos_k = relative = theta = segment = segments = None
    if isinstance(bias, StructuredBias):
        pos_q, pos_k, relative, theta, segment, segments = bias.expand(query.shape[1]).contiguous()
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
        out, _ = attention_op(*inputs, scale, dropout_p, causal, max_length)
        return out.transpose(1, 2)
    return Attention.apply(Options(scale, dropout_p, causal, max_length), *inputs)
