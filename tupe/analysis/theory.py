r"""What the two papers prove, as functions on numbers: the rank of logits, and the form of a Toeplitz matrix.

*Rank* (DIET, theorem 1). With positions at the input, a head's logits are a product of an `n x d_h` and a `d_h x n`
matrix, so their rank is at most `d_h`. A low-rank position term of its own adds up to `d_p`.

*Toeplitz* (TUPE, proposition 1). Every `n x n` Toeplitz matrix, `B[j, k] = b[k - j]`, is `G D G*` with `D` diagonal,
`2n x 2n`, and `G` an `n x 2n` Vandermonde matrix of roots of unity. The constants that make it exact:

    G[j, m] = e^(i pi j m / n) / sqrt(2n)              D[m] = sum over c of b[c] e^(i pi c m / n),  -n <= c < n

`b[-n]` is not in `B`: any number will do (the paper takes `b[0]`, we take 0). `D` is real for a symmetric `B`. The
proof embeds `B` in a `2n x 2n` circulant matrix, whose eigenvalues are `D`, and takes the top-left block.

The paper prints other constants: docs/dev/systems.md. The theorem that its proof quotes is Gray 2006, theorem 7.

So the relative term has `2n - 1` degrees of freedom and any rank up to `n`, and the untied absolute term is any matrix
of rank `d_h`: neither contains the other.
"""

import torch
from torch import Tensor

from tupe.errors import UserError


def numerical_rank(matrix: Tensor, relative_tolerance: float | None = None) -> Tensor:
    """Count the singular values of each matrix that are above a share of the largest.

    Args:
        matrix: `(..., n, m)`, such as the logits of every head.
        relative_tolerance: that share; by default `max(n, m)` times the precision of the matrix's type, which the
            rounding of a sum of that many terms can reach.

    Returns:
        int64, `(...)`.

    Raises:
        UserError: if a number in it is not finite, as in a model that has diverged.
    """
    if not torch.isfinite(matrix).all():
        raise UserError("a matrix of numbers that are not finite has no rank: the model has diverged.")
    if relative_tolerance is None:
        relative_tolerance = max(matrix.shape[-2:]) * torch.finfo(matrix.dtype).eps
    return torch.linalg.matrix_rank(matrix.double(), rtol=relative_tolerance)


def toeplitz_factorisation(values: Tensor) -> tuple[Tensor, Tensor]:
    """Compute `G` and the diagonal of `D` with `B = G D G*`, for the Toeplitz matrix `B[j, k] = b[k - j]`.

    `values` are `b` of the distances `-(n-1) .. n-1`, `(2n - 1,)`, real or complex.

    Returns:
        `G` `(n, 2n)` and the diagonal `(2n,)`, both complex128; see the module for the constants.

    Raises:
        UserError: if the number of values is even.
    """
    if values.ndim != 1 or values.numel() % 2 == 0:
        raise UserError(f"a Toeplitz matrix has 2n - 1 values, b of -(n-1) .. n-1, not {tuple(values.shape)}")
    n = (values.numel() + 1) // 2
    b = torch.cat([values.new_zeros(1), values]).to(torch.complex128)  # of the distances -n .. n-1
    by_column = b.roll(-n)  # b[0], ..., b[n-1], b[-n], ..., b[-1]: the first row of the circulant matrix
    diagonal = torch.fft.ifft(by_column, norm="forward")  # sum of b[c] e^(+ 2 pi i c m / 2n)
    column = torch.arange(2 * n, device=values.device)
    exponent = column[:n].outer(column) % (2 * n)  # a whole turn is no angle
    phase = torch.pi / n * exponent.double()
    return torch.polar(torch.full_like(phase, (2 * n) ** -0.5), phase), diagonal
