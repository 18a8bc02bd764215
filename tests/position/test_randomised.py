"""Positions of training that are drawn at random: what is drawn, what the terms make of it, and where they stay."""

import pytest
import torch

from tupe.errors import UserError
from tupe.position import (
    BucketedRelative,
    FireRelative,
    FreeAbsolute,
    KerpleRelative,
    PositionBias,
    RelativeTerm,
    Reset,
    Rotary,
    UnbinnedRelative,
    UntiedAbsolute,
)
from tupe.position.length import Drawn

LENGTH, LONGEST, HEADS = 9, 40, 2


def bias(relative=None, absolute=True, **options):
    torch.manual_seed(0)
    untied = UntiedAbsolute(LONGEST, 8, HEADS) if absolute else None
    position = PositionBias(untied, relative, rotation=Rotary(6), randomised=LONGEST, **options)
    for parameter in position.parameters():
        torch.nn.init.normal_(parameter)
    return position.double()


def drawn(position, seed=1, **options):
    """The terms, and the positions that they are of."""
    torch.manual_seed(seed)
    terms = position(LENGTH, torch.float64, **options)
    torch.manual_seed(seed)
    return terms, Drawn.of(LENGTH, LONGEST, torch.device("cpu")).positions


def test_what_is_drawn():
    seen = torch.zeros(LONGEST)
    for seed in range(200):
        torch.manual_seed(seed)
        positions = Drawn.of(LENGTH, LONGEST, torch.device("cpu")).positions
        assert positions[0] == 0
        assert (positions.diff() > 0).all()
        assert 0 < positions[1] <= positions[-1] < LONGEST
        seen[positions] += 1
    assert seen[0] == 200
    assert (seen[1:] > 15).all()  # 200 (9 - 1) / 39 are 41


def test_untied_positions_and_angles_are_those_of_the_draw():
    position = bias()
    whole = position.eval()(LONGEST, torch.float64)
    terms, positions = drawn(position.train())
    torch.testing.assert_close(terms.bias, whole.bias[:, positions][:, :, positions], rtol=0, atol=1e-12)
    torch.testing.assert_close(terms.rotation, whole.rotation[:, positions], rtol=0, atol=1e-12)
    assert not torch.equal(terms.bias, drawn(position, seed=2)[0].bias)


@pytest.mark.parametrize("structured", [False, True])
@pytest.mark.parametrize(
    "term",
    [
        lambda: UnbinnedRelative(HEADS, LONGEST),
        lambda: BucketedRelative(HEADS, 8, 20),
        lambda: KerpleRelative(HEADS),
        lambda: FireRelative(HEADS, LONGEST),
    ],
)
def test_distances_are_those_of_the_draw_mirrored(term, structured):
    """Cell by cell: keys `d` places after the query have the value of the distance that was drawn for `d`."""
    position = bias(term(), absolute=False)
    values = position.relative.by_distance(1 - LONGEST, LONGEST)
    terms, positions = drawn(position, structured=structured)
    found = terms.bias.dense(LENGTH) if structured else terms.bias
    for i in range(LENGTH):
        for j in range(LENGTH):
            distance = (1 if j > i else -1) * positions[abs(j - i)]
            torch.testing.assert_close(found[:, i, j], values[:, distance + LONGEST - 1])


def test_the_reset_and_the_parts_of_a_sum():
    position = bias(UnbinnedRelative(HEADS, LONGEST), reset=Reset(HEADS, 8))
    dense, _ = drawn(position)
    parts, _ = drawn(position, structured=True)
    torch.testing.assert_close(parts.bias.dense(LENGTH), dense.bias)
    dense.bias.square().sum().backward()
    assert position.absolute.table.weight.grad[LENGTH:].any()  # positions that no sequence has


def test_evaluation_is_at_the_positions_of_the_sequence():
    position = bias(KerpleRelative(HEADS)).eval()
    state = torch.get_rng_state()
    terms, plain = position(LENGTH, torch.float64), bias(KerpleRelative(HEADS)).eval()
    plain.randomised = 0
    torch.testing.assert_close(terms.bias, plain(LENGTH, torch.float64).bias)
    assert torch.equal(torch.get_rng_state(), state)


def test_as_many_as_there_are_change_nothing():
    position = bias(KerpleRelative(HEADS))
    state = torch.get_rng_state()
    terms = position(LONGEST, torch.float64)
    assert torch.equal(torch.get_rng_state(), state)  # nor what dropout draws
    for one, other in zip(terms, position.eval()(LONGEST, torch.float64)):
        assert (one is None and other is None) or torch.equal(one, other)


def test_a_forward_that_knows_no_drawn_positions_is_refused():
    class Plain(BucketedRelative):
        def forward(self, length, num_keys=None, query_offset=0, by_distance=False):
            return super().forward(length, num_keys, query_offset, by_distance)

    class Knowing(BucketedRelative):
        def forward(self, *arguments, **options):
            return 2 * super().forward(*arguments, **options)

    with pytest.raises(UserError, match="forward of Plain does not take drawn="):
        bias(Plain(HEADS, 8, 20))
    assert PositionBias(relative=Plain(HEADS, 8, 20)).train()(LENGTH).bias.shape == (HEADS, LENGTH, LENGTH)
    twice, once = (drawn(bias(kind(HEADS, 8, 20), absolute=False))[0] for kind in (Knowing, BucketedRelative))
    torch.testing.assert_close(twice.bias, 2 * once.bias)


def test_a_term_without_parameters():
    class Distance(RelativeTerm):
        def by_distance(self, first, stop):
            return torch.arange(first, stop, dtype=torch.float64).unsqueeze(0)

    terms, positions = drawn(PositionBias(relative=Distance(), randomised=LONGEST))
    assert torch.equal(terms.bias[0, 0], positions.double())


def test_what_has_no_positions_to_draw():
    with pytest.raises(UserError, match="randomised positions need terms that know each position or distance"):
        PositionBias(FreeAbsolute(9, 2), randomised=20)
