import math

import pytest
import torch

from tupe.position import BucketedRelative, UnbinnedRelative
from tupe.position.relative import bucket_boundaries


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
    assert bucket_boundaries(8, 8, 128)[7:] == [8, 12, 16, 23, 32, 46, 64, 91]
    assert bucket_boundaries(8, 8, 8 * 10**8)[7:10] == [8, 80, 800]  # at once
    assert 16 not in relative.row(distances)


def test_t5s_decoder_has_all_buckets_for_the_past():
    relative = BucketedRelative(1, bidirectional=False)
    rows = relative.row(-torch.arange(1001))
    first = [int((rows == bucket).nonzero()[0]) for bucket in range(32)]
    assert first == [*range(16), 16, 19, 21, 24, 27, 31, 35, 40, 46, 52, 59, 67, 77, 87, 99, 113]
    assert (relative.row(torch.arange(1, 9)) == 0).all()


@pytest.mark.parametrize("positions", [5, 20])
def test_buckets_are_no_distances(positions):
    """There are 32 of them and `2 n - 1` distances: a longer model neither slices them nor names positions."""
    with pytest.raises(RuntimeError, match="size mismatch for weight"):
        UnbinnedRelative(3, positions).load_state_dict(BucketedRelative(3, 32, 128).state_dict())
