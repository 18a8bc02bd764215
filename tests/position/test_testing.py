"""What is no term is told so, by what it does wrong; those of this package are terms."""

import pytest
import torch
from torch import nn

from tupe.errors import UserError
from tupe.models import config
from tupe.position import (
    BucketedRelative,
    ClippedRelative,
    FreeAbsolute,
    LowRankAbsolute,
    ParametricRelative,
    PositionBias,
    RelativeTerm,
    StructuredBias,
    Term,
    UnbinnedRelative,
    UntiedAbsolute,
    check_term,
    registry,
)
from tupe.position.length import Span


@pytest.mark.parametrize(
    "term",
    [
        UntiedAbsolute(16, 8, 2),
        LowRankAbsolute(16, 3, 2),
        FreeAbsolute(16, 2),
        BucketedRelative(2),
        ClippedRelative(2, 4),
        UnbinnedRelative(2, 16),
        ParametricRelative(8, 2, 4, 5),
    ],
    ids=lambda term: type(term).__name__,
)
def test_ours_are_terms(term):
    before = {name: p.clone() for name, p in term.named_parameters()}
    check_term(term, graphs=isinstance(term, (UntiedAbsolute, BucketedRelative)))
    assert all(torch.equal(p, before[name]) for name, p in term.named_parameters())


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
    check_term(Slopes(), relative=True)
    position = PositionBias(None, Slopes()).eval()
    assert not isinstance(position(7, structured=True).bias, StructuredBias)
    with torch.no_grad():
        assert position(7).bias.data_ptr() == position(5).bias.data_ptr()


class NoOffset(Slopes):
    def forward(self, length, num_keys=None, query_offset=0):
        return super().forward(length, num_keys)


class Random(Slopes):
    def forward(self, *span):
        return super().forward(*span) + 0.1 * torch.rand(())


class Half(Slopes):
    def forward(self, *span):
        return super().forward(*span).half()


class Deaf(Slopes):
    def __init__(self):
        super().__init__()
        self.unused = nn.Parameter(torch.ones(1))


class Detached(Slopes):
    def __init__(self):
        super().__init__()
        self.kept = self.slope.detach().clone()

    def forward(self, *span):
        return super().forward(*span) * self.kept.to(self.slope.dtype).mean() + 0 * self.slope.sum()


class Endless(Slopes):
    max_positions = 16


class Wide(Slopes):
    def __init__(self, heads=3):
        super().__init__(heads)


class OneHead(Slopes):
    def forward(self, *span):
        return super().forward(*span)[0]


class OfPositions(Slopes):
    def forward(self, length, num_keys=None, query_offset=0):
        return (
            super().forward(length, num_keys, query_offset) * torch.arange(query_offset, query_offset + length)[:, None]
        )


class Remembers(Slopes):
    def forward(self, *span):
        self.calls = getattr(self, "calls", 0) + 1
        return super().forward(*span) * self.calls


class Lopsided(RelativeTerm):
    """In parts another than dense."""

    def __init__(self):
        super().__init__()
        self.slope = nn.Parameter(torch.ones(2, 1))

    def by_distance(self, first, stop):
        return self.slope.float() * torch.arange(first, stop)

    def forward(self, *span, by_distance=False):
        return super().forward(*span, by_distance=by_distance) * (2 if by_distance else 1)


class Unheard(Lopsided):
    """In parts a gradient does not arrive."""

    def __init__(self):
        super().__init__()
        self.level = nn.Parameter(torch.ones(2, 1, 1))

    def forward(self, *span, by_distance=False):
        values = RelativeTerm.forward(self, *span, by_distance=by_distance)
        return values + (self.level.detach().squeeze(-1) if by_distance else self.level)


class Unpickled(Slopes):
    def __init__(self):
        super().__init__()
        self.of = lambda distance: distance


@pytest.mark.parametrize(
    ("term", "said"),
    [
        (NoOffset, r"query_offset=11\) is \(2, 1, 1\), not \(H, 1, 12\)"),
        (Random, "it is not that part"),
        (Remembers, "it is not that part"),
        (Half, "its values are torch.float16"),
        (Deaf, "no gradient reaches its parameter unused"),
        (Endless, "answers beyond its 16 positions"),
        (OneHead, r"is \(12, 12\), not \(H, 12, 12\)"),
        (OfPositions, "not a function of the distance"),
        (Lopsided, "structured it is not what it is dense"),
        (Unheard, "structured, the gradient of level is another"),
        (Unpickled, "it cannot be pickled: .*lambda"),
        (nn.Identity, "raises TypeError"),
    ],
)
def test_what_is_no_term(term, said):
    with pytest.raises(UserError, match=f"^{term.__name__} is no position term: .*({said})"):
        check_term(term(), relative=True)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"term": None}, "None is no position term: give a module"),
        ({"term": BucketedRelative}, "<class .*BucketedRelative'> is no position term: give a module"),
        ({"term": PositionBias(None, BucketedRelative(2))}, "a PositionBias is no position term: give a module, such"),
        ({"term": BucketedRelative(2), "relative": "yes"}, "relative is 'yes', but must be True or False"),
        ({"term": BucketedRelative(2), "graphs": 1}, "graphs is 1, but must be True or False"),
    ],
)
def test_what_cannot_be_checked(wrong, said):
    with pytest.raises(UserError, match=f"^{said}"):
        check_term(**wrong)


@pytest.mark.parametrize("shape", [(31, 2), (2, 30), (31,)])
def test_values_of_another_shape(shape):
    term = BucketedRelative(2)
    term.by_distance = lambda first, stop: torch.zeros(shape)
    with pytest.raises(UserError, match=r"^BucketedRelative\.by_distance gives .*, but must give \(H, 31\)$"):
        term(16)


@pytest.mark.parametrize("most", [0, "16"])
def test_positions_that_are_no_number(most):
    term = BucketedRelative(2)
    term.max_positions = most
    with pytest.raises(UserError, match=r"^max_positions of BucketedRelative is .*, but must be a whole number, 1 or"):
        check_term(term)


@pytest.fixture
def empty(monkeypatch):
    monkeypatch.setattr(registry, "REGISTRY", {"absolute": {}, "relative": {}})
    monkeypatch.setattr(registry, "_read", False)


def test_registering(empty):
    assert registry.register_relative("slopes", heads="how many")(Slopes) is Slopes
    assert registry.registered_options() == {"heads": (2, "how many")}
    registry.register_relative("slopes", heads="how many")(Slopes)  # its module, imported again
    with pytest.raises(UserError, match="relative=slopes is taken: register Endless under another"):
        registry.register_relative("slopes")(Endless)
    with pytest.raises(UserError, match="relative='a b' is no name"):
        registry.register_relative("a b")(Slopes)
    with pytest.raises(UserError, match=r"^relative='' is no name: register Slopes under another"):
        registry.register_relative("")(Slopes)
    with pytest.raises(UserError, match=r"^register_absolute takes the name of a choice, .* write @register_absolute"):
        registry.register_absolute(Slopes)  # without its name
    with pytest.raises(UserError, match=r"^register_relative\('mine'\) decorates a class .*, but got 3$"):
        registry.register_relative("mine")(3)
    with pytest.raises(UserError, match=r"^register_relative\('mine'\) decorates a class .*, but got <function"):
        registry.register_relative("mine")(lambda num_heads, max_positions: None)
    with pytest.raises(UserError, match="heads is 2 in a term that is registered and 3 in Wide: give both one default"):
        registry.register_absolute("wide", heads="how many")(Wide)
    with pytest.raises(UserError, match="size is no argument of Slopes with a number"):
        registry.register_absolute("other", size="")(Slopes)
    assert registry.freeze() == ([], ["slopes"], registry.registered_options())
    with pytest.raises(UserError, match=r"absolute=late is registered after tupe\.models"):
        registry.register_absolute("late")(Slopes)
    with pytest.raises(UserError, match=r"x\.pt has relative=unknown, a term that is not registered here"):
        registry.refuse_unregistered("x.pt", config.TupeConfig, {"relative": "unknown"}.get)


@pytest.mark.parametrize("field", ["sharing", "pooler_dropout", "generator_size"])
def test_an_option_that_is_a_field_of_ours(field, monkeypatch):
    """It would take the field's default, and the field the option's value."""
    monkeypatch.setattr(config, "OPTIONS", {field: registry.Option(1, "")})
    with pytest.raises(UserError, match=f"{field} is a field of our models"):
        config.check_options(config.EncoderConfig, config.TupeConfig, config.ElectraConfig)
