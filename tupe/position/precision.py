"""Position terms are computed in float32 (or better) whatever the model's precision, and rounded once, at the end."""

from __future__ import annotations

import torch
from torch import Tensor


def at_least_float32(tensor: Tensor) -> Tensor:
    """`tensor` itself if it is float32 or float64, else a float32 copy."""
    return tensor.float() if tensor.dtype in (torch.float16, torch.bfloat16) else tensor


def no_autocast(device: torch.device) -> torch.autocast:
    """A context in which `torch.autocast` does not lower the precision on `device`."""
    return torch.autocast(device_type=device.type, enabled=False)


def compute_dtype(tensor: Tensor) -> torch.dtype:
    """The type of a linear layer's output for the input `tensor`: autocast's if it is on, else the tensor's own."""
    device = tensor.device.type
    return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else tensor.dtype
