"""`Terms`: segments are added to the dense bias, and what is split and expanded is a part of it."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from tupe.position import Terms
from tupe.position.terms import skew, toeplitz

SEGMENTS = torch.tensor([[0, 0, 1, 1], [0, 0, 0, 0]]).bool()


def normal(*shape):
    return torch.randn(shape, dtype=torch.float64)


def parts(heads=2, n=4, m=6, **others):
    torch.manual_seed(0)
    query, key = normal(heads, n, 3), normal(heads, m, 3)
    return Terms(n, query=query, key=key, relative=normal(heads, n + m - 1), theta=normal(2, heads), **others)


def test_segments_are_added_after_the_reset():
    square, values = parts(m=4), normal(2, 2, 2)
    dense = square._replace(segment=values, segments=SEGMENTS).bias
    for b, sides in enumerate(SEGMENTS.long()):
        torch.testing.assert_close(dense[b], square.bias + values[:, sides][:, :, sides])
    alone = Terms(4, segment=values, segments=SEGMENTS)
    torch.testing.assert_close(alone.bias[0, :, 2, 1], values[:, 1, 0])
    assert Terms(4, segment=values, segments=SEGMENTS[:1, :1]).bias.shape == (2, 1, 1)  # of the whole batch


def test_layers_that_do_not_share_are_more_heads():
    shape = (6, 4, 5)
    terms = parts(
        6, m=4, segment=normal(6, 2, 2), segments=SEGMENTS, content_query=normal(*shape), rotation=normal(2, 4)
    )
    for layer, own in enumerate(terms.split(3)):
        heads = slice(2 * layer, 2 * layer + 2)
        torch.testing.assert_close(own.bias, terms.bias[:, heads], rtol=0, atol=0)
        assert torch.equal(own.content_query, terms.content_query[heads]) and own.rotation is terms.rotation


def test_a_term_of_one_head_is_that_of_all():
    terms = parts(heads=1, m=4, segment=normal(1, 2, 2), segments=SEGMENTS)
    torch.testing.assert_close(terms.expand(3).bias, terms.bias.expand(-1, 3, -1, -1))
    wide = terms._replace(query=normal(3, 4, 3))
    torch.testing.assert_close(wide.bias[:, :, 1:, 1:], wide.expand(3).bias[:, :, 1:, 1:])


@given(st.integers(1, 9), st.integers(1, 9))
def test_skew_and_toeplitz_cell_by_cell(n, m):
    by_distance, values = torch.randn(2, n, n + m + 1), torch.randn(2, n + m - 1)
    skewed, laid = skew(by_distance), toeplitz(values, n)
    for i in range(n):
        for j in range(m):
            assert torch.equal(skewed[:, i, j], by_distance[:, i, n + j - i])
            assert torch.equal(laid[:, i, j], values[:, n - 1 + j - i])
    assert skewed.data_ptr() == by_distance[:, 0, n:].data_ptr()  # a view
