"""Whether the Triton kernels can compute an attention. Importing this needs no Triton."""

from __future__ import annotations

import importlib.util
from typing import Optional, Union

import torch
from torch import Tensor

from tupe.position.structured import StructuredBias

MAX_WIDTH = 128  # of a head and of the factors of a bias
DTYPES = (torch.float16, torch.bfloat16, torch.float32)

#: Triton 3.4 or later, before which the kernels do not compile: PyTorch 2.8 is the first that comes with it.
HAS_TRITON = importlib.util.find_spec("triton") is not None and torch.__version__ >= (2, 8)

#: Length from which the parts of a bias should be faster than the dense one, which costs memory traffic where they
#: cost matrix products. A guess, not measured: `benchmarks/attention.py` times both on a GPU.
STRUCTURED_LENGTH = 2048


def prefers_parts(
    backend: str, device: torch.device, length: int, width: int, segments: bool = False, in_factors: bool = False
) -> bool:
    """Whether a bias for `biased_attention` is better made in parts: a backend will take them, and it pays.

    Without the kernels a GPU is better off with factors as wider heads: PyTorch's fused kernels would read the dense
    bias for every sequence, and write its gradient for every sequence (counted, not measured).

    Args:
        backend: as in `biased_attention`.
        device: of the queries.
        length: of the sequences.
        width: of the heads or of the factors of the bias, whichever is more.
        segments: whether the bias has segments that differ, which would make the dense one `(B, H, T, T)`.
        in_factors: whether the bias would be factors, and no values by distance.
    """
    if in_factors and (backend == "factors" or (backend == "auto" and only_plain_kernels(device))):
        return True
    takes = backend in ("auto", "triton") and device_obstacle(device) is None
    return takes and width <= MAX_WIDTH and (segments or length >= STRUCTURED_LENGTH)


def takes_packed(backend: str, device: torch.device, dtype: torch.dtype, width: int) -> bool:
    """Whether a backend of that name would be the kernels, for heads of that type and width: `packed_attention`."""
    return backend in ("auto", "triton") and device_obstacle(device) is None and dtype in DTYPES and width <= MAX_WIDTH


def obstacle(query: Tensor, value: Tensor, bias: Union[Tensor, StructuredBias, None]) -> Optional[str]:
    """What keeps the kernels from these tensors, as a half sentence; `None` if nothing does."""
    missing = device_obstacle(query.device)
    if missing is not None:
        return missing
    width = max(query.shape[-1], value.shape[-1])
    if isinstance(bias, StructuredBias) and bias.query is not None:
        width = max(width, bias.query.shape[-1])
    if query.dtype not in DTYPES:
        return f"the Triton kernels have no {str(query.dtype).removeprefix('torch.')}"
    if width > MAX_WIDTH or value.shape[-1] != query.shape[-1]:
        return f"the Triton kernels take heads of one width up to {MAX_WIDTH}"
    return None


def only_plain_kernels(device: torch.device) -> bool:
    """Whether this is a GPU that has PyTorch's kernels and not ours."""
    return device.type == "cuda" and device_obstacle(device) is not None


def device_obstacle(device: torch.device) -> Optional[str]:
    if device.type != "cuda" or torch.version.cuda is None:
        return "the Triton kernels need an NVIDIA GPU"
    if torch.cuda.get_device_capability(device) < (8, 0):
        return "the Triton kernels need a GPU of compute capability 8.0 or more"
    return None if HAS_TRITON else "Triton, with PyTorch 2.8 or later, is not installed"
