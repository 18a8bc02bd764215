"""Tell whether the Triton kernels can compute an attention. The import of this module needs no Triton."""

import importlib.util

import torch
from torch import Tensor

from tupe.attention.verification.trusted import distrust
from tupe.position.structured import StructuredBias

MAX_WIDTH = 128  # the widest head, and the widest factors of a bias
DTYPES = (torch.float16, torch.bfloat16, torch.float32)

#: PyTorch 2.8, the oldest that is supported, comes with Triton 3.4, the oldest with which the kernels compile.
HAS_TRITON = importlib.util.find_spec("triton") is not None

#: Length from which a structured bias should be faster than a dense one: it costs matrix products, the dense one memory
#: traffic. A guess, not measured: `benchmarks/attention.py` times both on a GPU.
STRUCTURED_LENGTH = 2048


def prefers_structured(
    backend: str,
    device: torch.device | str,
    length: int,
    width: int,
    segments: bool = False,
    in_factors: bool = False,
    dtype: torch.dtype = torch.float32,
) -> bool:
    """Tell whether `biased_attention` should get a structured bias: the backend takes it, and it should be faster.

    On a GPU without the Triton kernels, factors as wider heads are better: PyTorch's fused kernels would read the dense
    bias, and write its gradient, once for every sequence (counted, not measured).

    Args:
        backend: as in `biased_attention`.
        device: device of the queries.
        length: length of the sequences.
        width: width of the heads or of the bias's factors, whichever is greater.
        segments: whether sequences differ in their segments, which would make a dense bias `(B, H, T, T)`.
        in_factors: whether the structured bias would have factors and no values by distance.
        dtype: type of the queries.
    """
    device = torch.device(device) if isinstance(device, str) else device
    if in_factors and (backend == "factors" or (backend == "auto" and only_plain_kernels(device, dtype))):
        return True
    takes = backend in ("auto", "triton") and kernels_obstacle(backend, device, dtype, "structured") is None
    return takes and width <= MAX_WIDTH and (segments or length >= STRUCTURED_LENGTH)


def takes_packed(backend: str, device: torch.device | str, dtype: torch.dtype, width: int) -> bool:
    """Tell whether `packed_attention` can compute heads of this type and width, and `backend` allows it."""
    device = torch.device(device) if isinstance(device, str) else device
    takes = backend in ("auto", "triton") and dtype in DTYPES and width <= MAX_WIDTH
    return takes and kernels_obstacle(backend, device, dtype, "packed") is None


def obstacle(
    query: Tensor, value: Tensor, bias: Tensor | StructuredBias | None, backend: str = "triton", packed: bool = False
) -> str | None:
    """Return why the kernels cannot take these tensors, as a half sentence; `None` if they can.

    Args:
        query, value: `(B, H, T, d_h)`, or without `B`.
        bias: the bias, if any.
        backend: `auto` needs kernels that passed their check on this machine; `triton` those that did not fail.
        packed: whether the sequences are packed.
    """
    missing = device_obstacle(query.device)
    if missing is not None:
        return missing
    width = max(query.shape[-1], value.shape[-1])
    if isinstance(bias, StructuredBias) and bias.query is not None:
        width = max(width, bias.query.shape[-1])
    if query.numel() == 0:
        return "there are no queries"
    if query.dtype not in DTYPES:
        return f"the Triton kernels have no {str(query.dtype).removeprefix('torch.')}"
    if width > MAX_WIDTH or value.shape[-1] != query.shape[-1]:
        return f"the Triton kernels take heads of one width up to {MAX_WIDTH}"
    kind = "packed" if packed else "structured" if isinstance(bias, StructuredBias) else "dense"
    return distrust(query.device, query.dtype, kind, backend)


def only_plain_kernels(device: torch.device, dtype: torch.dtype) -> bool:
    """Tell whether a device is a GPU on which `auto` does not use the Triton kernels for a structured bias."""
    return device.type == "cuda" and kernels_obstacle("auto", device, dtype, "structured") is not None


def kernels_obstacle(backend: str, device: torch.device, dtype: torch.dtype, kind: str) -> str | None:
    """Return why the kernels cannot run on a device, or are not trusted there with `dtype` (`distrust`); or `None`."""
    return device_obstacle(device) or distrust(device, dtype, kind, backend)


def device_obstacle(device: torch.device) -> str | None:
    """Return why the kernels cannot run on a device, as a half sentence; `None` if they can."""
    if device.type != "cuda" or torch.version.cuda is None:
        return "the Triton kernels need an NVIDIA GPU"
    if torch.cuda.get_device_capability(device) < (8, 0):
        return "the Triton kernels need a GPU of compute capability 8.0 or more"
    return None if HAS_TRITON else "Triton is not installed"
