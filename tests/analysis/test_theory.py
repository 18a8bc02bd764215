"""TUPE's proposition 1 and theorem 2 of DIET, on numbers; theorem 1 is in test_logits.py."""

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.linalg import matrix_rank

from tupe.position import BucketedRelative, LowRankAbsolute, PositionBias, PositionTable


def toeplitz_factorisation(values):
    """`G` `(n, 2n)` and the diagonal of `D` `(2n,)` with `B = G D G*`, for `B[j, k] = b[k - j]` (TUPE, proposition 1).

        G[j, m] = e^(i pi j m / n) / sqrt(2n)              D[m] = sum over c of b[c] e^(i pi c m / n),  -n <= c < n

    `values` are `b` of the distances `-(n-1) .. n-1`; `b[-n]` is not in `B`, so it may be 0. `B` is the top-left block
    of a `2n x 2n` circulant matrix, whose eigenvalues are `D`. The paper prints other
    constants (docs/measurements/encodings.md).
    """
    n = (len(values) + 1) // 2
    b = torch.cat([values.new_zeros(1), values]).to(torch.complex128)  # of the distances -n .. n-1
    diagonal = torch.fft.ifft(b.roll(-n), norm="forward")  # sum of b[c] e^(+ 2 pi i c m / 2n)
    column = torch.arange(2 * n)
    phase = torch.pi / n * (column[:n].outer(column) % (2 * n)).double()  # a whole turn is no angle
    return torch.polar(torch.full_like(phase, (2 * n) ** -0.5), phase), diagonal


def test_added_positions_have_the_gradient_of_the_words():
    """DIET, theorem 2: the gradients of X and P in l(g(X + P)) are equal."""
    words, table = torch.nn.Parameter(torch.randn(40, 24).double()), PositionTable(40, 24).double()
    query, key = (words + table(40)) @ torch.randn(2, 24, 24).double()
    (query @ key.mT).softmax(-1).square().sum().backward()
    assert torch.equal(words.grad, table.weight.grad)


@given(st.integers(1, 20), st.booleans(), st.integers(0, 99))
def test_toeplitz_factorisation_is_exact(n, complex_values, seed):
    """And the paper's constants: 1 / (2n) gives B / (2n) with the eigenvalues; the printed j + 1 is harmless."""
    dtype = torch.complex128 if complex_values else torch.float64
    values = torch.randn(2 * n - 1, generator=torch.Generator().manual_seed(seed), dtype=dtype)
    left, diagonal = toeplitz_factorisation(values)
    expected = torch.tensor(
        [[values[n - 1 + k - j].item() for k in range(n)] for j in range(n)], dtype=torch.complex128
    )
    torch.testing.assert_close(left @ torch.diag(diagonal) @ left.conj().t(), expected)
    j, m = torch.arange(n).double()[:, None], torch.arange(2 * n).double()
    printed = torch.exp(1j * torch.pi * (j + 1) * m / n) / (2 * n)
    torch.testing.assert_close(printed @ torch.diag(diagonal) @ printed.conj().t(), expected / (2 * n))


def test_neither_term_contains_the_other():
    """The relative term has full rank, which the untied one of rank d_h cannot have; that one is not Toeplitz."""
    relative = BucketedRelative(1).double()
    torch.nn.init.normal_(relative.weight)
    assert matrix_rank(PositionBias(None, relative)(32).bias) == 32
    absolute = PositionBias(LowRankAbsolute(32, 8, 1).double())(32).bias[0]
    assert (absolute.diagonal() - absolute[0, 0]).abs().max() > 1e-4
