"""ALiBi, KERPLE-log and FIRE: slopes of others' code, sides, KERPLE's limit, and FIRE as it was published."""

import pytest
import torch

from tupe.position import AlibiRelative, FireRelative, KerpleRelative
from tupe.position.alibi import alibi_slopes

FAR = torch.arange(-63, 64)


@pytest.mark.parametrize("heads", [1, 4, 6, 8, 12, 16])
def test_slopes_are_those_of_others(heads):
    bloom = pytest.importorskip("transformers.models.bloom.modeling_bloom").build_alibi_tensor
    mpt = pytest.importorskip("transformers.models.mpt.modeling_mpt").build_mpt_alibi_tensor
    ours = torch.tensor(alibi_slopes(heads))
    torch.testing.assert_close(bloom(torch.ones(1, 2), heads, torch.float32)[:, 0, 1], ours)
    torch.testing.assert_close(-mpt(heads, 2)[:, 0, 0], ours)


def test_sides():
    distance = torch.arange(-2, 3)
    assert (2**8 * AlibiRelative(1)(distance)).tolist() == [[-2, -1, 0, -1, -2]]
    learned = 2**8 * AlibiRelative(2, relative_sides="learned")(distance)  # has a direction from the first step
    torch.testing.assert_close(learned, -torch.tensor([[32.0, 16, 0, 1, 2], [2, 1, 0, 16, 32]]))


@pytest.mark.parametrize("sides", ["symmetric", "learned"])
def test_layers_have_the_slopes_of_their_heads(sides):
    """Twelve sets of parameters are three layers of four heads, and not ALiBi of twelve heads."""
    layer = AlibiRelative(4, relative_sides=sides)(FAR)
    torch.testing.assert_close(AlibiRelative(12, relative_sides=sides, layer_heads=4)(FAR), layer.repeat(3, 1))


def test_kerple_becomes_alibi():
    """`a -> 0` with `p a = m`."""
    kerple = KerpleRelative(4).double()
    kerple.least, rate = 0.0, 1e-3
    with torch.no_grad():  # before softplus
        kerple.rate.fill_(rate).expm1_().log_()
        kerple.height.copy_(torch.tensor(alibi_slopes(4)) / rate).expm1_().log_()
    torch.testing.assert_close(kerple(FAR), AlibiRelative(4)(FAR).double(), rtol=0.04, atol=0)  # log(1 + a d) for a d


def published(fire, n):
    """FIRE of the authors' code, written again: causal, `psi(max(L, i))`, the distance without its sign."""
    positions = torch.arange(n, dtype=torch.float64)
    distance = positions[:, None] - positions[None, :]
    threshold = (fire.length * fire.unit).abs()
    log = [(fire.rate * x).abs().add(1).log() for x in (distance, torch.maximum(threshold, positions)[:, None])]
    normalised = -(log[0] / (log[1] + 1e-6))  # the past is negative here
    hidden = (normalised[..., None] * fire.hidden_weight + fire.hidden_bias).relu()
    return (hidden @ fire.out_weight.t() + fire.out_bias).permute(2, 0, 1)


def test_fire_is_the_published_one_before_the_query():
    """Within `L`, where `max(L, i)` is `L`; distances beyond it share its value."""
    torch.manual_seed(0)
    fire = FireRelative(3, 20).double()
    found = fire(torch.arange(-19, 1))
    torch.testing.assert_close(found, published(fire, 20)[:, -1], rtol=0, atol=1e-12)
    assert torch.equal(fire(torch.tensor([-21, 21])), fire(torch.tensor([-90, 90])))
