"""A bias in parts is the bias that is their sum, and every backend takes it."""

import pytest
import torch

from tupe.attention import StructuredBias, biased_attention
from tupe.errors import UserError
from tupe.position import BucketedRelative, PositionBias, Reset, UntiedAbsolute


def parts(heads=2, t_q=4, t_k=6, width=3):
    torch.manual_seed(0)
    shapes = (heads, t_q, width), (heads, t_k, width), (heads, t_q + t_k - 1), (2, heads)
    return StructuredBias(*(torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in shapes))


def test_dense_is_the_equation():
    bias = parts()
    dense = bias.dense(4, 6)
    for h in range(2):
        for i in range(4):
            for j in range(6):
                want = bias.query[h, i] @ bias.key[h, j] + bias.relative[h, j - i + 3]
                want = bias.theta[0, h] if i == 0 else bias.theta[1, h] if j == 0 else want
                torch.testing.assert_close(dense[h, i, j], want)


def test_the_parts_of_tupe():
    """What TUPE-R's terms hand out in parts is what they hand out whole."""
    absolute = UntiedAbsolute(max_positions=9, embed_dim=8, num_heads=2)
    relative, reset = BucketedRelative(num_heads=2), Reset(num_heads=2, embed_dim=8)
    query, key = absolute.factors(7)
    bias = StructuredBias(query * absolute.scale, key, relative.by_distance(7), reset.theta(absolute))
    bias.check(2, 7, 7)
    torch.testing.assert_close(bias.dense(7, 7), PositionBias(absolute, relative, reset)(7).bias)


def test_slice_and_type():
    bias = parts(t_q=6, t_k=6)
    short = bias.slice(4)
    short.check(2, 4, 4)
    torch.testing.assert_close(short.dense(4, 4), bias.dense(6, 6)[:, :4, :4])
    assert {part.dtype for part in bias.to(torch.bfloat16)} == {torch.bfloat16}
    assert StructuredBias(relative=bias.relative).slice(4).query is None


@pytest.mark.parametrize("backend", ["reference", "sdpa", "auto"])
@pytest.mark.parametrize("causal", [False, True])
def test_every_backend_takes_it(backend, causal):
    bias = parts()
    query, key, value = (torch.randn(2, 2, length, 5, dtype=torch.float64) for length in (4, 6, 6))
    options = {"scale": 0.4, "backend": backend, "causal": causal}
    out = biased_attention(query, key, value, bias, **options)
    out.sum().backward()
    gradients = [part.grad for part in bias]
    dense = bias.dense(4, 6).detach().requires_grad_()
    hidden = dense.masked_fill(torch.ones(4, 6).triu(3).bool(), -torch.inf) if causal else dense
    want = biased_attention(query, key, value, hidden, scale=0.4, backend="reference")
    torch.testing.assert_close(out, want)
    want.sum().backward()
    want = torch.autograd.grad(bias.dense(4, 6), bias, dense.grad)
    torch.testing.assert_close(gradients, list(want))


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"key": None}, "query without key"),
        ({"query": None, "key": None, "relative": None}, "needs query and key, or relative"),
        ({"relative": torch.zeros(2, 8)}, r"relative is \(2, 8\), but must be \(2, 9\)"),
        ({"theta": torch.zeros(2)}, r"theta is \(2,\), but must be \(2, 2\)"),
        ({"key": torch.zeros(2, 6, 4)}, r"key is \(2, 6, 4\), but must be \(2, 6, 3\)"),
    ],
)
def test_parts_that_do_not_fit(change, match):
    query, key, value = (torch.zeros(1, 2, length, 5) for length in (4, 6, 6))
    with pytest.raises(UserError, match=match):
        biased_attention(query, key, value, parts()._replace(**change), scale=1.0)


def test_causal_needs_a_key_for_each_query():
    query, key, value = (torch.zeros(1, 2, length, 5) for length in (6, 4, 4))
    with pytest.raises(UserError, match="a key for each query, but has 6 and 4"):
        biased_attention(query, key, value, scale=1.0, causal=True)
