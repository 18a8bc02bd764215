"""A structured bias is the bias that is their sum, and every backend takes it."""

import pytest
import torch

from tupe.attention import biased_attention
from tupe.position import (
    BucketedRelative,
    FreeAbsolute,
    LowRankAbsolute,
    PositionBias,
    PositionTerms,
    Reset,
    SegmentAttention,
    StructuredBias,
    UnbinnedRelative,
    UntiedAbsolute,
)


def parts(heads=2, t_q=4, t_k=6, width=3):
    torch.manual_seed(0)
    shapes = (heads, t_q, width), (heads, t_k, width), (heads, t_q + t_k - 1), (2, heads)
    return StructuredBias(*(torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in shapes))


SEGMENTS = torch.tensor([[0, 0, 1, 1], [0, 0, 0, 0]]).bool()


def test_dense_is_the_equation():
    bias = parts()
    dense = bias.dense(6)
    for h in range(2):
        for i in range(4):
            for j in range(6):
                want = bias.query[h, i] @ bias.key[h, j] + bias.relative[h, j - i + 3]
                want = bias.theta[0, h] if i == 0 else bias.theta[1, h] if j == 0 else want
                torch.testing.assert_close(dense[h, i, j], want)


def test_segments_are_added_after_the_reset():
    square, values = parts(t_k=4), torch.randn(2, 2, 2, dtype=torch.float64)
    dense = square._replace(segment=values, segments=SEGMENTS).dense(4)
    for b, sides in enumerate(SEGMENTS.long()):
        torch.testing.assert_close(dense[b], square.dense(4) + values[:, sides][:, :, sides])
    alone = StructuredBias(segment=values, segments=SEGMENTS)
    torch.testing.assert_close(alone.dense(4)[0, :, 2, 1], values[:, 1, 0])


TERMS = {
    "TUPE-R": lambda: PositionBias(UntiedAbsolute(9, 8, 4), BucketedRelative(4), Reset(4, 8)),
    "TUPE-A": lambda: PositionBias(UntiedAbsolute(9, 8, 4), None, Reset(4, 8)),
    "DIET-ABS": lambda: PositionBias(LowRankAbsolute(9, 3, 4)),
    "DIET-REL with a reset": lambda: PositionBias(None, UnbinnedRelative(4, 9), Reset(4)),
}


@pytest.mark.parametrize("terms", TERMS.values(), ids=TERMS)
def test_the_parts_of_the_systems(terms):
    """In parts the terms are what they are whole: values, gradients, slices, layers, segments."""
    torch.manual_seed(0)
    position, weight = terms().double(), torch.randn(4, 7, 7, dtype=torch.float64)
    whole, structured = position(7, torch.float64).bias, position(7, torch.float64, structured=True).bias
    torch.testing.assert_close(structured.dense(7), whole)
    gradients = [
        torch.autograd.grad((bias * weight).sum(), position.parameters()) for bias in (structured.dense(7), whole)
    ]
    torch.testing.assert_close(*gradients)

    with torch.no_grad():
        position.eval()
        cached = [position(length, torch.float64, structured=True).bias for length in (7, 4)]
        torch.testing.assert_close(cached[1].dense(4), whole[:, :4, :4])
        assert all(part is None or part.is_contiguous() for bias in cached for part in bias)
        torch.testing.assert_close(position(7, torch.float64).bias, whole)  # and not what is cached structured

        segment = SegmentAttention(2, 2).double()
        structured = PositionTerms(cached[1]).add_segments(segment(), SEGMENTS, structured=True)
        of_layers = zip(structured.split(2), PositionTerms(whole[:, :4, :4]).split(2))
        for layer, (structured, whole) in enumerate(of_layers):
            whole = whole.add_segments(segment(layer=layer), SEGMENTS)
            torch.testing.assert_close(structured.bias.dense(4), whole.bias)


def test_terms_without_parts_are_whole():
    assert PositionBias(FreeAbsolute(9, 2))(4, structured=True).bias.shape == (2, 4, 4)
    assert PositionBias(LowRankAbsolute(9, 3, 2, num_keys=5))(4, structured=True).bias.shape == (2, 4, 5)
    assert PositionBias()(4, structured=True).bias is None


def test_one_head_for_all():
    bias = parts(heads=1)
    torch.testing.assert_close(bias.expand(3).dense(6), bias.dense(6).expand(3, -1, -1))
    query = torch.cat([bias.query, 2 * bias.query])
    wide = bias._replace(query=query, relative=None, theta=None)
    torch.testing.assert_close(wide.dense(6), query @ bias.key.transpose(1, 2))


def test_type():
    half = parts()._replace(segment=torch.zeros(2, 2, 2), segments=SEGMENTS).to(torch.bfloat16)
    assert half.relative.dtype == torch.float32  # far distances have large values, which 16 bits would round
    assert {part.dtype for part in half._replace(relative=None)[:-1] if part is not None} == {torch.bfloat16}
    assert half.segments is SEGMENTS


@pytest.mark.parametrize("backend", ["reference", "sdpa", "auto"])
@pytest.mark.parametrize("causal", [False, True])
def test_every_backend_takes_it(backend, causal):
    bias = parts()
    query, key, value = (torch.randn(2, 2, length, 5, dtype=torch.float64) for length in (4, 6, 6))
    options = {"scale": 0.4, "backend": backend, "causal": causal}
    out = biased_attention(query, key, value, bias, **options)
    out.sum().backward()
    gradients = [part.grad for part in bias[:4]]
    dense = bias.dense(6).detach().requires_grad_()
    hidden = dense.masked_fill(torch.ones(4, 6).triu(3).bool(), -torch.inf) if causal else dense
    want = biased_attention(query, key, value, hidden, scale=0.4, backend="reference")
    torch.testing.assert_close(out, want)
    want.sum().backward()
    want = torch.autograd.grad(bias.dense(6), bias[:4], dense.grad)
    torch.testing.assert_close(gradients, list(want))
