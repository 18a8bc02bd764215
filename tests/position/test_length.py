import pytest
import torch

from tests.position.contract import drawn
from tupe.position import FreeAbsolute, LowRankAbsolute, PositionBias, UnbinnedRelative, UntiedAbsolute


@pytest.mark.parametrize(
    "build",
    [
        lambda n: PositionBias(UntiedAbsolute(n, 8, 2)),
        lambda n: PositionBias(LowRankAbsolute(n, 3, 2)),
        lambda n: PositionBias(FreeAbsolute(n, 2)),
        lambda n: PositionBias(None, UnbinnedRelative(2, n)),
        lambda n: PositionBias(None, UnbinnedRelative(2, n, bidirectional=False)),
    ],
)
def test_longer_checkpoint_is_sliced_and_a_shorter_does_not_fit(build):
    long, short = drawn(build(10)), build(6)
    short.load_state_dict(long.state_dict())
    torch.testing.assert_close(short(6).bias, long(10).bias[:, :6, :6])
    with pytest.raises(RuntimeError, match="size mismatch"):
        long.load_state_dict(short.state_dict())
    with pytest.raises(ValueError, match="7 tokens is longer than the 6 positions"):
        short(7)
