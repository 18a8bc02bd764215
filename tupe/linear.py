"""`torch.nn.functional.linear` in float32 by oneDNN on AMD CPUs with AVX-512, where PyTorch takes MKL.

MKL computes there with the instructions of older CPUs, at half of oneDNN's speed or less (`docs/performance.md`).
"""

from __future__ import annotations

import functools
import os
from pathlib import Path
from typing import Optional

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tupe.tracing import is_traced

#: Primitives that oneDNN and PyTorch keep, each in a cache of its own, where the user does not say: by default 1,024.
#: Without padding nearly every batch has a size of its own, and needs its own (docs/performance.md).
_KEPT = {"ONEDNN_PRIMITIVE_CACHE_CAPACITY": "64", "LRU_CACHE_CAPACITY": "64"}


@functools.cache
def onednn_is_faster() -> bool:
    """Whether this is such a CPU, and PyTorch has both libraries."""
    cpuinfo = Path("/proc/cpuinfo")
    faster = (
        torch.backends.mkl.is_available()
        and hasattr(torch.ops.mkldnn, "_linear_pointwise")
        and torch.backends.cpu.get_cpu_capability() == "AVX512"
        and cpuinfo.is_file()
        and "AuthenticAMD" in cpuinfo.read_text()
    )
    if faster:
        keep_few_primitives()
    return faster


def keep_few_primitives() -> None:
    """Sets `_KEPT` where the user has not said otherwise; works only before the first use of oneDNN."""
    for name, number in _KEPT.items():
        os.environ.setdefault(name, number)


class OneDNNLinear(torch.autograd.Function):
    """The operator by which compiled models call oneDNN, with gradients."""

    @staticmethod
    def forward(ctx, x: Tensor, weight: Tensor, bias: Optional[Tensor]) -> Tensor:
        x = x.contiguous()
        if not weight.t().is_contiguous():
            weight = weight.contiguous()  # rows apart from each other cost oneDNN a thousand times as long
        ctx.save_for_backward(x, weight)
        return torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [None], "")

    @staticmethod
    def backward(ctx, grad: Tensor) -> tuple[Optional[Tensor], ...]:
        x, weight = ctx.saved_tensors
        rows = grad.flatten(0, -2)
        return (
            linear(grad, weight.t()) if ctx.needs_input_grad[0] else None,
            linear(rows.t(), x.flatten(0, -2).t()) if ctx.needs_input_grad[1] else None,
            rows.sum(0) if ctx.needs_input_grad[2] else None,
        )


def linear(x: Tensor, weight: Tensor, bias: Optional[Tensor] = None) -> Tensor:
    """`x weight^T + bias` for `x` `(..., n)`, `weight` `(m, n)` and `bias` `(m,)`: `(..., m)`, with gradients."""
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
    return F.linear(x, weight, bias) if plain else OneDNNLinear.apply(x, weight, bias)


def is_plain(module: nn.Module, kind: type[nn.Module]) -> bool:
    """Whether calling `module` is `kind.forward` and nothing more: no subclass or adapter, no hook."""
    return (
        type(module) is kind
        and "forward" not in module.__dict__
        and not (module._forward_pre_hooks or module._forward_hooks)
        and not (module._backward_pre_hooks or module._backward_hooks)
        and not nn.modules.module._has_any_global_hook()
    )


def project(module: nn.Module, x: Tensor) -> Tensor:
    """`module(x)`, by `linear` where `module` is a plain `torch.nn.Linear`: what replaces or hooks it has its say."""
    if torch.compiler.is_compiling() or not is_plain(module, nn.Linear):
        return module(x)
    return linear(x, module.weight, module.bias)
