import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tupe.position import BucketedRelative, ClippedRelative, UnbinnedRelative
from tupe.position.relative import bucket_boundaries, toeplitz


def t5_bucket(distance, half=16, max_distance=128):
    """T5's published formula, one number at a time, in exact comparison where the logarithm is an integer."""
    d, exact = abs(distance), half // 2
    if d >= exact:
        position = math.log(d / exact) / math.log(max_distance / exact) * (half - exact)
        d = min(half - 1, exact + math.floor(position + 1e-9))
    return d + half * (distance > 0)


def test_buckets_are_t5s():
    """The authors' steps: 8, 12, 16, 23, 32, 46, 64, 91; row 16 is never used."""
    relative = BucketedRelative(1)
    distances = torch.arange(-600, 601)
    assert relative.row(distances).tolist() == [t5_bucket(d) for d in range(-600, 601)]
    assert bucket_boundaries(16, 128)[7:] == [8, 12, 16, 23, 32, 46, 64, 91]
    assert bucket_boundaries(16, 8 * 10**8)[7:10] == [8, 80, 800]  # at once
    assert 16 not in relative.row(distances)


def test_t5s_decoder_has_all_buckets_for_the_past():
    relative = BucketedRelative(1, bidirectional=False)
    rows = relative.row(-torch.arange(1001))
    first = [int((rows == bucket).nonzero()[0]) for bucket in range(32)]
    assert first == [*range(16), 16, 19, 21, 24, 27, 31, 35, 40, 46, 52, 59, 67, 77, 87, 99, 113]
    assert (relative.row(torch.arange(1, 9)) == 0).all()


@given(st.integers(2, 40), st.integers(2, 2000))
def test_every_bucket_in_order(half, extra):
    max_distance = half // 2 + extra
    relative = BucketedRelative(1, 2 * half, max_distance)
    rows = relative.row(-torch.arange(0, 2 * max_distance))
    assert (rows.diff() >= 0).all()
    assert rows[0] == 0
    assert rows[-1] == half - 1
    assert rows[: half // 2].tolist() == list(range(half // 2))


@pytest.mark.parametrize("length", [1, 2, 7, 200])
@pytest.mark.parametrize("relative", [BucketedRelative(3), ClippedRelative(3, 4), UnbinnedRelative(3, 200)])
def test_bias_is_the_value_of_the_distance(relative, length):
    bias = relative(length)
    assert bias.shape == (3, length, length)
    i, j = torch.meshgrid(torch.arange(length), torch.arange(length), indexing="ij")
    expected = relative.weight[relative.row(j - i)].permute(2, 0, 1)
    torch.testing.assert_close(bias, expected, rtol=0, atol=0)


def test_clipping():
    relative = ClippedRelative(2, 3)
    assert relative.weight.shape == (7, 2)
    assert relative.row(torch.tensor([-9, -3, 0, 1, 3, 50])).tolist() == [0, 0, 3, 4, 6, 6]


def test_gradient_sums_over_the_diagonals():
    values = torch.randn(2, 9, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda v: toeplitz(v, v.shape[-1] // 2 + 1), (values,))


def test_base_size_has_32_values_a_head():
    assert sum(p.numel() for p in BucketedRelative(12).parameters()) == 32 * 12


@pytest.mark.parametrize("positions", [5, 20])
def test_buckets_are_no_distances(positions):
    """There are 32 of them and `2 n - 1` distances: a longer model neither slices them nor names positions."""
    with pytest.raises(RuntimeError, match="size mismatch for weight"):
        UnbinnedRelative(3, positions).load_state_dict(BucketedRelative(3, 32, 128).state_dict())
