"""ALiBi, KERPLE-log and FIRE: slopes of others' code, what each becomes in the limit, sides, precision, cache."""

import math

import pytest
import torch

from tupe.position import (
    AlibiRelative,
    FireRelative,
    KerpleRelative,
    PositionBias,
    StructuredBias,
)
from tupe.position.alibi import alibi_slopes

TERMS = {
    **{
        f"alibi {sides}": lambda sides=sides: AlibiRelative(3, relative_sides=sides)
        for sides in ("symmetric", "learned")
    },
    "alibi's decoder": lambda: AlibiRelative(3, relative_sides="learned", bidirectional=False),
    "kerple": lambda: KerpleRelative(3),
    "kerple's decoder": lambda: KerpleRelative(3, bidirectional=False),
    "fire": lambda: FireRelative(3, 12),
    "fire, shorter": lambda: FireRelative(3, 12, fire_width=5, fire_length=4.0),
}


@pytest.fixture(params=TERMS.values(), ids=TERMS)
def term(request):
    torch.manual_seed(0)
    return request.param()


@pytest.mark.parametrize("heads", [1, 4, 6, 8, 12, 16])
def test_slopes_are_those_of_others(heads):
    bloom = pytest.importorskip("transformers.models.bloom.modeling_bloom").build_alibi_tensor
    mpt = pytest.importorskip("transformers.models.mpt.modeling_mpt").build_mpt_alibi_tensor
    ours = alibi_slopes(heads)
    torch.testing.assert_close(bloom(torch.ones(1, 2), heads, torch.float32)[:, 0, 1], ours)
    torch.testing.assert_close(-mpt(heads, 2)[:, 0, 0], ours)


@pytest.mark.parametrize("heads", [4, 8, 12, 16])
def test_the_symmetric_matrix_is_x_transformers(heads):
    theirs = pytest.importorskip("x_transformers.x_transformers").AlibiPositionalBias(heads=heads)
    torch.testing.assert_close(AlibiRelative(heads)(9), theirs(9, 9).view(heads, 9, 9))


def test_sides():
    """The first row of the slope 2^-8 over the slope: what each side of the query gets."""
    rows = {sides: AlibiRelative(1, relative_sides=sides)(4)[0] * 2**8 for sides in ("symmetric", "learned")}
    assert rows["symmetric"][1].tolist() == [-1, 0, -1, -2]
    left, right = (AlibiRelative(2, relative_sides="learned")(4)[:, 1, column] for column in (0, 2))
    torch.testing.assert_close(left, -torch.tensor([2**-4, 2**-8]))
    torch.testing.assert_close(right, left.flip(0))  # so that there is a direction from the first step


def test_shift_and_fall(term):
    """Values depend on the distance alone, and those of ALiBi and KERPLE fall with it."""
    values = term(12).detach()
    torch.testing.assert_close(values[:, 1:, 1:], values[:, :-1, :-1])
    if not isinstance(term, FireRelative):
        row = values[:, -1].flip(-1)  # the past, from the query on
        assert (row.diff() < 0).all()
        assert (values[:, 0].diff() <= 0).all()


def test_layers_have_the_slopes_of_their_heads():
    """Twelve sets of parameters are three layers of four heads, and not ALiBi of twelve heads."""
    fixed, learned = (AlibiRelative(12, relative_sides=sides, layer_heads=4)(5) for sides in ("symmetric", "learned"))
    torch.testing.assert_close(fixed, AlibiRelative(4)(5).repeat(3, 1, 1))
    torch.testing.assert_close(learned, AlibiRelative(4, relative_sides="learned")(5).repeat(3, 1, 1))


def set_to(parameter, positive, least=0.0):
    with torch.no_grad():
        parameter.copy_(torch.as_tensor(positive - least).expm1().log())


def test_kerple_becomes_alibi():
    """`a -> 0` with `p a = m`."""
    kerple = KerpleRelative(4).double()
    kerple.least, rate = 0.0, 1e-3
    slopes = alibi_slopes(4).double()
    set_to(kerple.rate, torch.full((2, 4), rate, dtype=torch.float64))
    set_to(kerple.height, (slopes / rate).expand(2, 4))
    torch.testing.assert_close(kerple(50), AlibiRelative(4).double()(50), rtol=0.03, atol=0)  # log(1 + a d) for a d


def straight(fire, before, after):
    """Let `f(u)` be `before u` below 0 and `after u` above it."""
    with torch.no_grad():
        fire.hidden_weight.copy_(torch.tensor([-1.0, 1.0]))
        fire.out_weight.copy_(torch.stack([-before, after], -1))
        fire.hidden_bias.zero_(), fire.out_bias.zero_()


def test_fire_becomes_kerple():
    """`f` straight on both sides, `p = slope / psi(L)` and `a = c`."""
    fire = FireRelative(3, 64, fire_width=2).double()
    height = 0.1 + torch.rand(2, 3, dtype=torch.float64)
    end = math.log1p(0.1 * 64) + 1e-6
    straight(fire, height[0] * end, -height[1] * end)
    kerple = KerpleRelative(3).double()
    set_to(kerple.height, height, kerple.least)
    set_to(kerple.rate, torch.full((2, 3), 0.1, dtype=torch.float64), kerple.least)
    torch.testing.assert_close(fire(50), kerple(50), rtol=1e-6, atol=1e-6)


def test_fire_becomes_alibi_and_ends():
    """`c -> 0` and `f(u) = -m L |u|`; beyond `L` distances share its value."""
    fire, slopes = FireRelative(4, 64, fire_width=2).double(), alibi_slopes(4).double()
    straight(fire, 64 * slopes, -64 * slopes)
    with torch.no_grad():
        fire.rate.fill_(1e-3)
    close = {"rtol": 0.05, "atol": 1e-3}  # of `log(1 + c d) / log(1 + c L)` and of what is added to it, `d / L`
    torch.testing.assert_close(fire(64), AlibiRelative(4).double()(64), **close)
    far = fire.by_distance(60, 200)
    assert torch.equal(far[:, 6:], far[:, 6:7].expand(-1, 134))


class Published(torch.nn.Module):
    """FIRE of the authors' code, written again: causal, `psi(max(L, i))`, the distance without its sign."""

    def __init__(self, fire):
        super().__init__()
        self.fire = fire

    def forward(self, n):
        fire = self.fire
        positions = torch.arange(n, dtype=torch.float64)
        distance = positions[:, None] - positions[None, :]
        threshold = (fire.length * fire.unit).abs()
        log = [(fire.rate * x).abs().add(1).log() for x in (distance, torch.maximum(threshold, positions)[:, None])]
        normalised = -(log[0] / (log[1] + 1e-6))  # the past is negative here
        hidden = (normalised[..., None] * fire.hidden_weight + fire.hidden_bias).relu()
        return (hidden @ fire.out_weight.t() + fire.out_bias).permute(2, 0, 1)


def test_fire_is_the_published_one_before_the_query():
    """Within `L`, where `max(L, i)` is `L`."""
    torch.manual_seed(0)
    fire = FireRelative(3, 20).double()
    torch.testing.assert_close(fire(20).tril(), Published(fire)(20).tril(), rtol=0, atol=1e-12)


@torch.no_grad()
def test_far_distances_are_not_rounded():
    """In bfloat16 the least slope of eight heads is wrong by 1/16 at 8192 positions, unless the values stay float32."""
    position = PositionBias(None, AlibiRelative(8)).eval()
    want = position(8192, structured=True).bias.relative.double()
    for half in (position, position.bfloat16()):
        bias = half(8192, torch.bfloat16, structured=True).bias
        assert isinstance(bias, StructuredBias)
        assert (bias.relative.double() - want).abs().max() < 1e-3
    assert (want - want.bfloat16().double()).abs().max() > 0.06


@torch.no_grad()
def test_terms_without_parameters_are_cached_and_follow_the_device():
    position = PositionBias(None, AlibiRelative(4)).eval()
    first = position(9).bias
    assert position(7).bias.data_ptr() == first.data_ptr()
    meta = PositionBias(None, AlibiRelative(4)).to("meta")
    assert meta(5).bias.device.type == "meta"
    back = meta.to_empty(device="cpu").eval()  # what the meta device loses is no slope
    torch.testing.assert_close(back(9).bias, first)
    assert not position.state_dict()
