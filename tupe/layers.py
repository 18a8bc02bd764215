"""Linear layers and dropout that are faster on the CPU than PyTorch's, used where no tracer is active.

On AMD CPUs with AVX-512, oneDNN computes float32 linear layers instead of MKL, which is PyTorch's choice. MKL uses the
instructions of older CPUs there, at half of oneDNN's speed or less.
"""

import functools
import os
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd import forward_ad


@functools.cache
def onednn_is_faster() -> bool:
    """Return whether this is an AMD CPU with AVX-512, and PyTorch has oneDNN and MKL."""
    cpuinfo = Path("/proc/cpuinfo")
    faster = (
        torch.backends.mkl.is_available()
        and hasattr(torch.ops.mkldnn, "_linear_pointwise")
        and torch.backends.cpu.get_cpu_capability() == "AVX512"
        and cpuinfo.is_file()
        and "AuthenticAMD" in cpuinfo.read_text()
    )
    if faster:  # without padding nearly every batch has a new size, and needs a new primitive
        for cache in ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY"):  # oneDNN's and PyTorch's; default 1,024
            os.environ.setdefault(cache, "64")  # before the first use of oneDNN
    return faster


class OneDNNLinear(torch.autograd.Function):
    """The oneDNN operator that compiled models call, with gradients."""

    @staticmethod
    def forward(ctx, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        return torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [None], "")

    @staticmethod
    def backward(ctx, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        rows = grad.flatten(0, -2)
        return (
            linear(grad, weight.t()) if ctx.needs_input_grad[0] else None,
            linear(rows.t(), x.flatten(0, -2).t()) if ctx.needs_input_grad[1] else None,
            rows.sum(0) if ctx.needs_input_grad[2] else None,
        )


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Compute `x weight^T + bias`, `(..., m)`, for `x` `(..., n)`, `weight` `(m, n)` and `bias` `(m,)`."""
    plain = (
        x.device.type != "cpu"
        or not x.dtype == weight.dtype == torch.float32
        or is_traced()
        or torch.is_autocast_enabled("cpu")
        or not torch.backends.mkldnn.enabled
        or not onednn_is_faster()
        or x.ndim < 2
        or x.numel() == 0
    )
    if plain:
        return F.linear(x, weight, bias)
    if not weight.t().is_contiguous():
        weight = weight.contiguous()  # oneDNN takes a thousand times as long for strided rows
    return OneDNNLinear.apply(x.contiguous(), weight, bias)


class Linear(nn.Linear):
    """`torch.nn.Linear`, computed by `linear`."""

    def forward(self, x: Tensor, rows: slice | None = None) -> Tensor:
        """Map `x` `(..., n)` to `(..., m)`, or to the outputs of only those `rows` of the weight."""
        if rows is None:
            return linear(x, self.weight, self.bias)
        return linear(x, self.weight[rows], None if self.bias is None else self.bias[rows])


def dropout(x: Tensor, p: float, training: bool = True) -> Tensor:
    """Apply dropout to `x`, of any shape; on the CPU the rate is rounded to a multiple of 1/65536."""
    rate = round(p * 65536)
    if not training or not 0 < rate < 65536 or x.device.type != "cpu" or is_traced():
        return F.dropout(x, p, training)
    bits = torch.empty((x.numel() + 3) // 4, dtype=torch.int64).random_(-(2**63), None)
    kept = bits.view(torch.int16)[: x.numel()].view(x.shape) >= rate - 32768
    return x * kept.to(x.dtype).mul_(65536 / (65536 - rate))


class Dropout(nn.Dropout):
    """`torch.nn.Dropout`, computed by `dropout`."""

    def forward(self, x: Tensor) -> Tensor:
        """Apply dropout to `x`, of any shape."""
        return dropout(x, self.p, self.training)


def is_traced() -> bool:
    """Return whether operations are recorded or transformed rather than only run.

    If so, code must not branch on values or cache results, and must use only operations that every tracer and transform
    of PyTorch supports: `torch.compile`, `torch.export`, `torch.jit.trace`, `make_fx` and other dispatch modes, the
    transforms of `torch.func`, forward-mode derivatives and the capture of a CUDA graph.
    """
    return (
        torch.compiler.is_compiling()  # first, so that a compiler does not trace the other tests
        or torch.jit.is_tracing()
        or is_transformed()
        or torch._C._len_torch_dispatch_stack() > 0
        or (torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing())  # this fails without a driver
    )


def is_transformed() -> bool:
    """Return whether `torch.func` or forward-mode derivatives are active, which not every fused kernel supports."""
    return not torch.compiler.is_compiling() and (
        torch._C._functorch.peek_interpreter_stack() is not None or forward_ad._current_level >= 0
    )
