import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tupe.position import ShawRelative
from tupe.position.shaw import skew, unskew


@given(st.integers(1, 9), st.integers(1, 3))
def test_skew_cell_by_cell(length, heads):
    by_distance = torch.randn(2, heads, length, 2 * length + 1)
    out = skew(by_distance)
    for i in range(length):
        for j in range(length):
            torch.testing.assert_close(out[:, :, i, j], by_distance[:, :, i, length + j - i], rtol=0, atol=0)


@given(st.integers(1, 9))
def test_unskew_is_the_transpose_of_skew(length):
    x = torch.randn(2, length, 2 * length + 1, dtype=torch.float64)
    y = torch.randn(2, length, length, dtype=torch.float64)
    torch.testing.assert_close((skew(x) * y).sum(), (x * unskew(y)).sum())


def test_skew_is_a_view():
    x = torch.randn(2, 5, 11)
    assert skew(x).data_ptr() == x[:, 0, 5:].data_ptr()
    assert skew(x).stride() == (55, 10, 1)


@pytest.mark.parametrize("num_keys", [1, 3, 9])
@pytest.mark.parametrize("bidirectional", [True, False])
def test_one_query_has_its_vectors_in_keys_and_values(num_keys, bidirectional):
    term = ShawRelative(4, max_distance=3, values=True, bidirectional=bidirectional).double()
    query, weights = torch.randn(2, 3, 1, 4).double(), torch.rand(2, 3, 1, num_keys).double()
    key, value = torch.randn(2, 2, 3, num_keys, 4, dtype=torch.float64)
    all_keys, all_values = term.of_one_query(key, value)
    wanted = query @ key.mT + term(query, num_keys=num_keys)
    torch.testing.assert_close(query @ all_keys.mT, wanted)
    torch.testing.assert_close(weights @ all_values, weights @ value + term.weighted_values(weights))
    without = ShawRelative(4, max_distance=3)
    assert without.of_one_query(key.float(), value)[1] is value


def test_parameters():
    """(2t + 1) x d_h, shared by the heads; t = 128."""
    assert sum(p.numel() for p in ShawRelative(64).parameters()) == 257 * 64
    assert sum(p.numel() for p in ShawRelative(64, values=True).parameters()) == 2 * 257 * 64
