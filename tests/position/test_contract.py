"""Every term does what `PositionBias` relies on."""

import pytest
from torch import nn

from tests.position.contract import check_term
from tupe.position import (
    AlibiRelative,
    BucketedRelative,
    ClippedRelative,
    DualTriangleRelative,
    FireRelative,
    FreeAbsolute,
    KerpleRelative,
    LowRankAbsolute,
    ParametricRelative,
    UnbinnedRelative,
    UntiedAbsolute,
    registry,
)

TERMS = {
    "untied": ("absolute", lambda: UntiedAbsolute(16, 8, 2, projection_bias=True)),
    "untied, no layer norm": ("absolute", lambda: UntiedAbsolute(16, 8, 2, layer_norm=False)),
    "low rank": ("absolute", lambda: LowRankAbsolute(16, 3, 2)),
    "free": ("absolute", lambda: FreeAbsolute(16, 2)),
    "T5": ("relative", lambda: BucketedRelative(2, 8, 12)),
    "T5's decoder": ("relative", lambda: BucketedRelative(2, 8, 12, bidirectional=False)),
    "clipped": ("relative", lambda: ClippedRelative(2, 4)),
    "unbinned": ("relative", lambda: UnbinnedRelative(2, 16)),
    "unbinned decoder": ("relative", lambda: UnbinnedRelative(2, 16, bidirectional=False)),
    "parametric": ("relative", lambda: ParametricRelative(8, 2, 4, 5)),
    "ALiBi": ("relative", lambda: AlibiRelative(3)),
    "ALiBi, learnt": ("relative", lambda: AlibiRelative(3, relative_sides="learned")),
    "KERPLE": ("relative", lambda: KerpleRelative(3)),
    "KERPLE's decoder": ("relative", lambda: KerpleRelative(3, bidirectional=False)),
    "dual triangle": ("relative", lambda: DualTriangleRelative(3)),
    "FIRE": ("relative", lambda: FireRelative(3, 12)),
}


@pytest.mark.parametrize("name", TERMS)
def test_ours(name):
    check_term(*TERMS[name])


def test_registering(monkeypatch):
    monkeypatch.setattr(registry, "REGISTRY", {"absolute": {}, "relative": {}})
    register = registry.register_relative("steps", max_distance="how far")
    assert register(ClippedRelative) is ClippedRelative
    assert registry.registered_options() == {"max_distance": (128, "how far")}
    register(ClippedRelative)  # its module, imported again
    assert [*registry.REGISTRY["relative"]] == ["steps"]
    given = {"num_heads": 3, "max_distance": 5, "embed_dim": 8}  # more than it takes
    assert registry.build_term("relative", "steps", given).weight.shape == (11, 3)
    with pytest.raises(AssertionError, match="relative=steps is taken"):
        registry.register_relative("steps")(nn.Identity)
