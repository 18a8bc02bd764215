"""Attention with a bias on its logits, for any PyTorch code, without fairseq."""

from typing import Any

from torch import Tensor

from tupe.attention.biased import BACKENDS, biased_attention, takes_parts
from tupe.attention.packed import packed_attention, takes_packed

__all__ = ["BACKENDS", "biased_attention", "packed_attention", "takes_packed", "takes_parts"]


def triton(query: Tensor, *arguments: Any) -> Tensor:
    """Compute attention with the Triton kernels, after their self-check, with the arguments of `triton_attention`."""
    from tupe.attention.kernels.check import self_check
    from tupe.attention.triton_attention import triton_attention  # the import needs Triton

    if query.device.type == "cuda":
        self_check(query.device, query.dtype)
    return triton_attention(query, *arguments)


BACKENDS["triton"] = triton
