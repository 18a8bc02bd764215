"""Whether the Triton kernels can compute an attention. Importing this needs no Triton."""

from __future__ import annotations

import importlib.util
from typing import Optional, Union

import torch
from torch import Tensor

from tupe.attention.structured import StructuredBias

MAX_WIDTH = 128  # of a head and of the factors of a bias

#: Triton 3.2 or later: PyTorch 2.6 is the first that comes with it.
HAS_TRITON = importlib.util.find_spec("triton") is not None and torch.__version__ >= (2, 6)

#: Length from which a bias in parts should be faster than the dense one, which costs memory traffic where the parts
#: cost matrix products. A guess: where they cross is not measured.
STRUCTURED_LENGTH = 2048


def obstacle(query: Tensor, value: Tensor, bias: Union[Tensor, StructuredBias, None]) -> Optional[str]:
    """What keeps the kernels from these tensors, as a half sentence; `None` if nothing does."""
    missing = device_obstacle(query.device)
    if missing is not None:
        return missing
    width = max(query.shape[-1], value.shape[-1])
    if isinstance(bias, StructuredBias) and bias.query is not None:
        width = max(width, bias.query.shape[-1])
    if query.dtype not in (torch.float16, torch.bfloat16, torch.float32):
        return f"the Triton kernels have no {str(query.dtype).removeprefix('torch.')}"
    if width > MAX_WIDTH or value.shape[-1] != query.shape[-1]:
        return f"the Triton kernels take heads of one width up to {MAX_WIDTH}"
    return None


def device_obstacle(device: torch.device) -> Optional[str]:
    if device.type != "cuda" or torch.version.cuda is None:
        return "the Triton kernels need an NVIDIA GPU"
    if torch.cuda.get_device_capability(device) < (8, 0):
        return "the Triton kernels need a GPU of compute capability 8.0 or more"
    return None if HAS_TRITON else "Triton, with PyTorch 2.6 or later, is not installed"
