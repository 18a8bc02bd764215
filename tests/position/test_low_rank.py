import pytest
import torch

from tupe.position import FreeAbsolute, LowRankAbsolute, PositionBias, UnbinnedRelative
from tupe.util import UserError


def drawn(term):
    """`term` in float64 with parameters far from their small initial values."""
    for parameter in term.parameters():
        torch.nn.init.normal_(parameter)
    return term.double()


def test_keys_that_are_not_positions():
    """Linformer: all k keys, whatever the length, also from the cache."""
    position = PositionBias(drawn(LowRankAbsolute(8, 3, 2, num_keys=6))).eval()
    with torch.no_grad():
        assert position(8).bias.shape == (2, 8, 6)
        short = position(4, torch.float64).bias
        torch.testing.assert_close(short, position.absolute.query[:, :4] @ position.absolute.key.transpose(1, 2))


@pytest.mark.parametrize(
    ("term", "count"),
    [
        (LowRankAbsolute(512, 128, 12), 1_572_864),
        (LowRankAbsolute(512, 128, 12 * 12), 18_874_368),
        (UnbinnedRelative(12, 512), 12_276),
        (UnbinnedRelative(12 * 12, 512), 147_312),
        (FreeAbsolute(512, 12), 3_145_728),
    ],
)
def test_parameters_at_base_size(term, count):
    assert sum(p.numel() for p in term.parameters()) == count


def test_free_is_its_parameter():
    term = drawn(FreeAbsolute(6, 2))
    torch.testing.assert_close(term(4), term.weight[:, :4, :4], rtol=0, atol=0)


@pytest.mark.parametrize(
    "build", [lambda n: LowRankAbsolute(n, 3, 2), lambda n: FreeAbsolute(n, 2), lambda n: UnbinnedRelative(2, n)]
)
def test_longer_checkpoint_is_sliced_and_a_shorter_does_not_fit(build):
    long, short = drawn(build(10)), drawn(build(6))
    short.load_state_dict(long.state_dict())
    torch.testing.assert_close(short(6), long(10)[:, :6, :6], rtol=0, atol=0)
    with pytest.raises(RuntimeError, match="size mismatch"):
        long.load_state_dict(short.state_dict())
    with pytest.raises(UserError, match="7 tokens is longer than the 6 positions"):
        short(7)
