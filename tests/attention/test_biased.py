"""Every backend against the float64 reference, forward and backward; what is refused."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tupe.attention import BACKENDS, biased_attention
from tupe.attention.verification.bounds import BOUNDS
from tupe.errors import UserError
from tupe.position import PositionTerms, StructuredBias


def inputs(batch, heads, t_q, t_k, width, dtype, padded, seed, spread=1.0):
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape):
        return (torch.randn(*shape, generator=generator, dtype=torch.float64) * spread).to(dtype).double()

    tensors = [normal(batch, heads, t, width) for t in (t_q, t_k, t_k)] + [normal(heads, t_q, t_k)]
    mask = None
    if padded:
        lengths = torch.randint(1, t_k + 1, (batch,), generator=generator)
        mask = torch.arange(t_k) >= lengths[:, None]
    return tensors, mask


def run(tensors, mask, dtype, backend):
    leaves = [tensor.to(dtype, copy=True).requires_grad_() for tensor in tensors]
    out = biased_attention(*leaves, key_padding_mask=mask, scale=(2 * tensors[0].shape[-1]) ** -0.5, backend=backend)
    weight = torch.linspace(-1, 1, out.numel(), dtype=torch.float64).view_as(out)
    (out.double() * weight).sum().backward()
    return [out.detach()] + [leaf.grad for leaf in leaves]


@settings(max_examples=40, deadline=None)
@given(
    backend=st.sampled_from([*BACKENDS, "auto"]),
    dtype=st.sampled_from(list(BOUNDS)),
    batch=st.integers(1, 3),
    heads=st.integers(1, 3),
    t_q=st.integers(1, 19),
    t_k=st.integers(1, 19),
    width=st.sampled_from([1, 5, 16]),
    padded=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_agrees_with_float64(backend, dtype, batch, heads, t_q, t_k, width, padded, seed):
    tensors, mask = inputs(batch, heads, t_q, t_k, width, dtype, padded, seed)
    exact = run(tensors, mask, torch.float64, "reference")
    for got, want in zip(run(tensors, mask, dtype, backend), exact):
        assert torch.isfinite(got).all()
        rounding = got.numel() ** 0.5  # what is exactly zero comes out as sums of order one that cancel
        assert (got.double() - want).norm() <= BOUNDS[dtype] * (want.norm() + rounding)


def test_reference_is_the_equation():
    (query, key, value, bias), _ = inputs(2, 2, 3, 4, 5, torch.float64, False, 0)
    out = biased_attention(query, key, value, bias, scale=0.3, backend="reference")
    for b in range(2):
        for h in range(2):
            for i in range(3):
                logits = torch.stack([0.3 * query[b, h, i] @ key[b, h, j] + bias[h, i, j] for j in range(4)])
                weights = logits.exp() / logits.exp().sum()
                torch.testing.assert_close(out[b, h, i], sum(weights[j] * value[b, h, j] for j in range(4)))


def test_reference_gradients():
    (query, key, value, bias), mask = inputs(2, 2, 3, 4, 2, torch.float64, True, 1)
    leaves = [t.requires_grad_() for t in (query, key, value, bias)]
    assert torch.autograd.gradcheck(
        lambda *t: biased_attention(*t, key_padding_mask=mask, scale=0.5, backend="reference"), leaves
    )


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", BOUNDS)
def test_large_logits_stay_finite_and_all_padding_gives_zeros(backend, dtype):
    tensors, mask = inputs(2, 2, 7, 7, 16, dtype, True, 2, spread=10.0)
    mask[1] = True  # a row whose keys are all padding
    out, *grads = run(tensors, mask, dtype, backend)
    plain = biased_attention(*(t.to(dtype) for t in tensors[:3]), key_padding_mask=mask, scale=0.2, backend=backend)
    for got in (out, *grads, plain):
        assert torch.isfinite(got).all()
    assert not any(got[1].any() for got in (out, *grads[:3], plain))


@pytest.mark.parametrize("backend", BACKENDS)
def test_padded_keys_change_nothing(backend):
    (query, key, value, bias), _ = inputs(1, 2, 5, 5, 4, torch.float32, False, 3)
    query, key, value, bias = (t.float() for t in (query, key, value, bias))
    mask = torch.tensor([[False, False, False, True, True]])
    out = biased_attention(query, key, value, bias, key_padding_mask=mask, scale=1.0, backend=backend)
    short = biased_attention(
        query[:, :, :3], key[:, :, :3], value[:, :, :3], bias[:, :3, :3], scale=1.0, backend=backend
    )
    torch.testing.assert_close(out[:, :, :3], short)


@pytest.mark.parametrize("backend", BACKENDS)
def test_dropout_rate_and_scale(backend):
    torch.manual_seed(0)
    length, p = 64, 0.3
    query = torch.zeros(8, 4, length, length)
    value = torch.eye(length).expand(8, 4, -1, -1)  # the output is the dropped weights themselves
    out = biased_attention(query, query, value, scale=1.0, dropout_p=p, training=True, backend=backend)
    assert (out == 0).float().mean().item() == pytest.approx(p, abs=0.01)
    kept = out[out > 0]
    torch.testing.assert_close(kept, torch.full_like(kept, 1 / length / (1 - p)))
    still = biased_attention(query, query, value, scale=1.0, dropout_p=p, training=False, backend=backend)
    torch.testing.assert_close(still, torch.full_like(still, 1 / length))


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"key": torch.zeros(2, 3, 5, 8)}, "key"),
        ({"value": torch.zeros(2, 3, 6, 4)}, "value"),
        ({"bias": torch.zeros(2, 5, 5)}, "broadcast"),
        ({"bias": torch.zeros(5, 4)}, "broadcast[^;]*$"),
        ({"bias": torch.zeros(5, 3, 3)}, r"broadcast .*; heads come before the length: .* by transpose\(1, 2\)"),
        ({"key_padding_mask": torch.zeros(2, 3, dtype=torch.bool)}, "must be .*; heads come before the length"),
        ({"bias": torch.zeros(5, 5, dtype=torch.bool)}, "bias is torch.bool, but is added"),
        ({"bias": torch.zeros(5, 5, dtype=torch.int64)}, "bias is torch.int64, but is added"),
        ({"bias": PositionTerms(torch.zeros(5, 5))}, r"bias is a PositionTerms, .* give a tensor, position\(n\).bias"),
        ({"key_padding_mask": torch.zeros(2, 4, dtype=torch.bool)}, "key_padding_mask"),
        ({"key_padding_mask": torch.zeros(2, 5)}, "key_padding_mask is torch.float32, but must be torch.bool"),
        ({"key_padding_mask": torch.zeros(2, 5, dtype=torch.uint8)}, "key_padding_mask is torch.uint8"),
        ({"key": torch.zeros(2, 3, 5, 4, device="meta")}, "^key is on meta, not on cpu as the others: move it there$"),
        ({"query": torch.zeros(2, 3, 5, 4).double()}, "one type, but are torch.float64, torch.float32"),
        (
            {"bias": StructuredBias(segment=torch.zeros(3, 2, 2), segments=torch.full((2, 5), 2))},
            "segments are torch.int64, but must be torch.bool",
        ),
        ({"key": [[0.0]]}, r"^key is \[\[0.0\]\], but must be a tensor$"),
        ({"bias": torch.ones(1, 1, 1, 1, device="meta")}, "^bias is on meta, not on cpu as the others"),
        ({"key_padding_mask": torch.zeros(2, 5, dtype=torch.bool, device="meta")}, "^key_padding_mask is on meta"),
        (
            {"bias": StructuredBias(relative=[0.0] * 9)},
            r"^StructuredBias\.relative is \[0.0, .*, but must be a tensor$",
        ),
        ({"bias": StructuredBias(relative=torch.zeros(3, 9, device="meta"))}, r"^StructuredBias\.relative is on meta"),
        (
            {"bias": StructuredBias(torch.zeros(3, 5, 2), torch.zeros(3, 5, 2).double())},
            r"^StructuredBias\.query is torch.float32, but key torch.float64: give both in one type$",
        ),
        (
            dict.fromkeys(("query", "key", "value"), torch.zeros(2, 3, 5, 4).to(torch.float8_e4m3fn)),
            "^query, key and value are torch.float8_e4m3fn, but must be floating",
        ),
        ({"scale": torch.ones(2)}, r"^scale is tensor\(\[1., 1.\]\), but must be a finite number"),
        ({"query": torch.zeros(2, 3, 5, 4).to_sparse()}, "^query is a tensor of torch.sparse_coo, but must be dense"),
        ({"bias": torch.zeros(5, 5).to_sparse()}, "^bias is a tensor of torch.sparse_coo, but must be dense"),
        ({"query": torch.zeros(2, 3, 5, 4).numpy()}, r"^query is a ndarray \(2, 3, 5, 4\), but must be a tensor$"),
        ({"key_padding_mask": [[False]]}, r"^key_padding_mask is \[\[False\]\], but must be a tensor$"),
        (dict.fromkeys(("query", "key", "value"), torch.zeros(2, 3, 5, 4).long()), "are torch.int64, but must be floa"),
        ({"scale": math.nan}, r"^scale is nan, but must be a finite number: give position\.scale\(d_h\)$"),
        ({"scale": math.inf}, "^scale is inf"),
        ({"scale": None}, "^scale is None"),
        ({"dropout_p": math.nan, "training": True}, "^dropout_p is nan, but must be a number from 0 to 1$"),
        ({"scale": True}, "^scale is True, but must be a finite number"),
        ({"dropout_p": True}, "^dropout_p is True, but must be a number"),
        ({"dropout_p": -1.0}, "^dropout_p is -1.0"),
        ({"training": "no"}, "^training is 'no', but must be True or False$"),
        ({"causal": 1}, "^causal is 1, but must be True or False$"),
        ({"backend": "flash"}, "flash.*auto or one of reference, sdpa"),
    ],
)
def test_bad_input(change, match):
    arguments = dict.fromkeys(("query", "key", "value"), torch.zeros(2, 3, 5, 4))
    for backend in ("auto", *BACKENDS):
        with pytest.raises(UserError, match=match):
            biased_attention(**{**arguments, "scale": 1.0, "backend": backend, **change})


@pytest.mark.parametrize("layout", [torch.strided, torch.jagged])  # made in the test: jagged ones import Triton
def test_nested_tensors(layout):
    query = torch.nested.nested_tensor([torch.zeros(3, 4)], layout=layout)
    padded = torch.zeros(2, 3, 5, 4)
    with pytest.raises(UserError, match=r"^query is a nested tensor, .*: give query\.to_padded_tensor\(0\)$"):
        biased_attention(query, padded, padded, scale=1.0)


@pytest.mark.parametrize("padding", [None, [False, False, True, True], [False, True, False, True]])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", BOUNDS)
def test_a_row_that_the_bias_hides_is_zero(backend, dtype, causal, padding):
    (query, key, value, bias), _ = inputs(2, 2, 4, 4, 8, dtype, False, 4)
    mask = torch.tensor([padding or [False] * 4] * 2)
    bias[:, 2] = torch.zeros(4).masked_fill(~mask[0], -torch.inf)  # query 2 sees nothing, or nothing but padding
    bias[:, :, 1] = -torch.inf  # nobody sees key 1
    for learns in (True, False):
        leaves = [tensor.to(dtype, copy=True).requires_grad_() for tensor in (query, key, value, bias)]
        leaves[3].requires_grad_(learns)
        options = {"key_padding_mask": mask if padding else None, "scale": 1.0, "causal": causal}
        out = biased_attention(*leaves, **options, backend=backend)
        others = [0, 1, 3]
        assert torch.equal(out[:, :, 2], torch.zeros_like(out[:, :, 2]))
        assert out[:, :, others].abs().sum(-1).all()
        out.sum().backward()
        for leaf in leaves[: 3 + learns]:
            assert torch.isfinite(leaf.grad).all()
        assert not leaves[0].grad[:, :, 2].any()
        assert not learns or not leaves[3].grad[:, 2].any()
        assert not leaves[2].grad[:, :, 1].any()
        assert not leaves[2].grad[mask[:, None].expand(2, 2, 4)].any()
        exact = biased_attention(*(leaf.double() for leaf in leaves), **options, backend="reference")
        assert (out - exact).norm() <= BOUNDS[dtype] * (exact.norm() + out.numel() ** 0.5)


@pytest.mark.parametrize("backend", BACKENDS)
def test_no_keys_give_zeros(backend):
    query, none = torch.ones(2, 3, 5, 4, requires_grad=True), torch.ones(2, 3, 0, 4)
    out = biased_attention(query, none, none, torch.ones(3, 5, 0), scale=1.0, backend=backend)
    assert torch.equal(out, torch.zeros(2, 3, 5, 4))
