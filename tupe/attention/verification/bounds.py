"""Bounds of a backend's error against float64."""

import torch
from torch import Tensor

#: Largest |got - exact| / (|exact| + sqrt(number of elements)) of an output or gradient, by type. The root is for
#: numbers that are zero because terms cancel: their bound is that of numbers of size 1. Triton's interpreter truncates
#: to bfloat16, where a GPU rounds.
BOUNDS = {torch.float64: 1e-12, torch.float32: 1e-5, torch.bfloat16: 3e-2, torch.float16: 3e-3}


def error_over_bound(got: Tensor, exact: Tensor, dtype: torch.dtype, terms: int = 0) -> float:
    """Return the error of a tensor as a multiple of the allowed error; NaN if `got` is not finite.

    Args:
        got: the tensor to judge, of type `dtype`.
        exact: the same in float64.
        dtype: type of the inputs.
        terms: number of terms in each sum, which counts for a tensor with fewer elements.
    """
    allowed = BOUNDS[dtype] * (exact.norm() + max(exact.numel(), terms) ** 0.5)
    error = ((got.double() - exact).norm() / allowed).item()
    return error if got.isfinite().all() else float("nan")
