"""Position terms are computed in float32 (or better) whatever the model's precision, and rounded once, at the end."""

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call


def has_16_bits(tensor: Tensor) -> bool:
    """Return whether `at_least_float32` would copy `tensor`."""
    return tensor.dtype in (torch.float16, torch.bfloat16)


def at_least_float32(tensor: Tensor) -> Tensor:
    """Return `tensor` itself if it is float32 or float64, else a float32 copy."""
    return tensor.float() if has_16_bits(tensor) else tensor


def no_autocast(device: torch.device) -> AbstractContextManager:
    """Return a context in which `torch.autocast` does not lower the precision on `device`."""
    on = device.type != "meta" and torch.is_autocast_enabled(device.type)
    return torch.autocast(device_type=device.type, enabled=False) if on else nullcontext()


def in_float32(module: nn.Module, *arguments: Any) -> Any:
    """Call `module` with its 16-bit parameters and buffers in float32."""
    half = {name: t.float() for name, t in (*module.named_parameters(), *module.named_buffers()) if has_16_bits(t)}
    return functional_call(module, half, arguments) if half else module(*arguments)


def compute_dtype(tensor: Tensor) -> torch.dtype:
    """Return the type of a linear layer's output for `tensor`: autocast's if it is on, else the tensor's own."""
    device = tensor.device.type
    return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else tensor.dtype
