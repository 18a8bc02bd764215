"""Every term does what `PositionBias`, its cache, kernels and exports rely on."""

import pytest
import torch
from torch import nn

from tests.position.contract import check_term
from tupe.position import (
    AlibiRelative,
    BucketedRelative,
    ClippedRelative,
    FireRelative,
    FreeAbsolute,
    KerpleRelative,
    LowRankAbsolute,
    ParametricRelative,
    PositionBias,
    StructuredBias,
    Term,
    UnbinnedRelative,
    UntiedAbsolute,
    registry,
)
from tupe.position.length import Span

TERMS = {
    "untied": lambda: UntiedAbsolute(16, 8, 2),
    "low rank": lambda: LowRankAbsolute(16, 3, 2),
    "free": lambda: FreeAbsolute(16, 2),
    "T5": lambda: BucketedRelative(2),
    "clipped": lambda: ClippedRelative(2, 4),
    "unbinned": lambda: UnbinnedRelative(2, 16),
    "parametric": lambda: ParametricRelative(8, 2, 4, 5),
    "ALiBi": lambda: AlibiRelative(3),
    "ALiBi, learnt": lambda: AlibiRelative(3, relative_sides="learned"),
    "KERPLE": lambda: KerpleRelative(3),
    "FIRE": lambda: FireRelative(3, 12),
    "FIRE, shorter": lambda: FireRelative(3, 12, fire_width=5, fire_length=4.0),
}
IN_GRAPHS = ("untied", "T5", "ALiBi", "KERPLE", "FIRE")


@pytest.mark.parametrize("name", TERMS)
def test_ours(name):
    torch.manual_seed(0)
    check_term(TERMS[name](), graphs=name in IN_GRAPHS)


@pytest.mark.parametrize("kind", [AlibiRelative, KerpleRelative])
def test_a_decoder_has_the_past_alone(kind):
    sides = {"relative_sides": "learned"} if kind is AlibiRelative else {}
    check_term(kind(3, bidirectional=False, **sides), graphs=False)


class Slopes(nn.Module, Term):
    """`-slope |j - i|`, dense alone."""

    def __init__(self, heads=2):
        super().__init__()
        self.slope = nn.Parameter(torch.linspace(0.1, 1, heads))

    def forward(self, length, num_keys=None, query_offset=0):
        span = Span.of(length, num_keys, query_offset)
        query = torch.arange(query_offset, query_offset + length).unsqueeze(-1)
        return -self.slope.float()[:, None, None] * (query - torch.arange(span.num_keys)).abs()


def test_a_term_without_parts_is_dense_and_kept():
    check_term(Slopes(), graphs=False)
    position = PositionBias(None, Slopes()).eval()
    assert not isinstance(position(7, structured=True).bias, StructuredBias)
    with torch.no_grad():
        assert position(7).bias.data_ptr() == position(5).bias.data_ptr()


def test_registering(monkeypatch):
    monkeypatch.setattr(registry, "REGISTRY", {"absolute": {}, "relative": {}})
    assert registry.register_relative("slopes", heads="how many")(Slopes) is Slopes
    assert registry.registered_options() == {"heads": (2, "how many")}
    registry.register_relative("slopes", heads="how many")(Slopes)  # its module, imported again
    assert (registry.own_terms("absolute"), registry.own_terms("relative")) == ([], ["slopes"])
    with pytest.raises(AssertionError, match="relative=slopes is taken"):
        registry.register_relative("slopes")(nn.Identity)
