"""How far a backend may be from float64."""

import torch
from torch import Tensor

#: Largest |got - exact| of an output or gradient over |exact| plus the root of its number of elements, by type: what is
#: zero because terms cancel is held to the bound of numbers of size 1. Triton's interpreter cuts bfloat16 numbers off,
#: where a GPU rounds them.
BOUNDS = {torch.float64: 1e-12, torch.float32: 1e-5, torch.bfloat16: 3e-2, torch.float16: 3e-3}


def error_over_bound(got: Tensor, exact: Tensor, dtype: torch.dtype, terms: int = 0) -> float:
    """Return the error of a tensor as a multiple of what is allowed; not finite where `got` is not.

    Args:
        got: of `dtype`.
        exact: float64.
        dtype: of the inputs.
        terms: of how many numbers a small tensor holds the sums.
    """
    allowed = BOUNDS[dtype] * (exact.norm() + max(exact.numel(), terms) ** 0.5)
    error = ((got.double() - exact).norm() / allowed).item()
    return error if got.isfinite().all() else float("nan")
