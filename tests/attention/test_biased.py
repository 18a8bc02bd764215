"""Every backend against the float64 reference, forward and backward, and the choice of `auto`."""

from types import SimpleNamespace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tupe.attention import BACKENDS, biased_attention, takes_packed, takes_parts
from tupe.attention.biased import choose_backend
from tupe.attention.kernels.check import BOUNDS
from tupe.position import Terms

LEARNING = [name for name in BACKENDS if name != "flex"]  # FlexAttention has no backward pass on a CPU


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
    backend=st.sampled_from([*LEARNING, "auto"]),
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


@pytest.mark.parametrize("backend", BACKENDS)
def test_queries_and_keys_wider_than_values(backend):
    """PoPE's are twice as wide."""
    (query, key, value, bias), mask = inputs(3, 2, 9, 9, 16, torch.float32, True, 0)
    both = (query, key, value[..., :8], bias), (query, key, value, bias)
    narrow, whole = (biased_attention(*x, key_padding_mask=mask, scale=0.3, backend=backend) for x in both)
    torch.testing.assert_close(narrow, whole[..., :8])


@pytest.mark.parametrize("backend", LEARNING)
@pytest.mark.parametrize("dtype", BOUNDS)
def test_large_logits_stay_finite_and_all_padding_gives_zeros(backend, dtype):
    tensors, mask = inputs(2, 2, 7, 7, 16, dtype, True, 2, spread=10.0)
    mask[1] = True  # a row whose keys are all padding
    out, *grads = run(tensors, mask, dtype, backend)
    plain = biased_attention(*(t.to(dtype) for t in tensors[:3]), key_padding_mask=mask, scale=0.2, backend=backend)
    for got in (out, *grads, plain):
        assert torch.isfinite(got).all()
    assert not any(got[1].any() for got in (out, *grads[:3], plain))


@pytest.mark.parametrize("backend", LEARNING)
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


@pytest.mark.parametrize("padding", [None, [False, False, True, True], [False, True, False, True]])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("backend", LEARNING)
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
    out = biased_attention(query, none, none[..., :2], torch.ones(3, 5, 0), scale=1.0, backend=backend)
    assert torch.equal(out, torch.zeros(2, 3, 5, 2))


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
@pytest.mark.parametrize("backend", [*BACKENDS, "auto"])
@pytest.mark.parametrize("causal", [False, True])
def test_terms_are_their_bias(backend, causal):
    """For all queries, and for the last three, whose first row is not the row of `[CLS]`."""
    (query, key, value, _), _ = inputs(2, 2, 7, 7, 8, torch.float64, False, 5)
    query, key, value = query.float(), key.float(), value.float()
    factors = torch.randn(2, 2, 7, 5, generator=torch.Generator().manual_seed(1))
    parts = Terms(7, 0, *factors, torch.linspace(-2, 2, 26).view(2, 13), torch.tensor([[1.0, 2], [3, 4]]))
    options = {"scale": 0.4, "causal": causal}
    for terms in (parts, parts._replace(relative=None)):
        for first in (0, 4):
            own = terms.slice(7 - first, first=first)
            want = biased_attention(query[:, :, first:], key, value, own.bias, **options, backend="reference")
            found = biased_attention(query[:, :, first:], key, value, own, **options, backend=backend)
            torch.testing.assert_close(found, want)


def choice(backend, bias=None, device="cpu", dtype=torch.float32, width=64, dropout_p=0.0):
    """The name of the chosen backend, for a device that may not be here."""
    query = SimpleNamespace(device=torch.device(device), dtype=dtype, shape=(2, 3, 5, width))
    return choose_backend(backend, query, bias, dropout_p)


FACTORS = Terms(5, 0, torch.zeros(3, 5, 8), torch.zeros(3, 5, 8))
BY_DISTANCE = FACTORS._replace(relative=torch.zeros(3, 9))


def test_auto():
    dense, learnt = torch.zeros(3, 5, 5), torch.zeros(3, 5, 5, requires_grad=True)
    parts_learn = FACTORS._replace(query=torch.zeros(3, 5, 8, requires_grad=True))
    assert {choice("auto", bias) for bias in (learnt, parts_learn)} == {"reference"}
    assert choice("auto", dense, dropout_p=0.1) == "reference"
    assert choice("auto", dense) == choice("auto") == choice("auto", learnt, dtype=torch.bfloat16) == "sdpa"
    assert choice("auto", FACTORS) == "sdpa" and choice("auto", FACTORS, "cuda") == "factors"
    assert choice("auto", BY_DISTANCE, "cuda") == choice("auto", learnt, "cuda", dropout_p=0.1) == "sdpa"
    with torch.no_grad():
        assert choice("auto", learnt) == "sdpa"


def test_backends_that_cannot_take_the_tensors():
    assert choice("triton", device="cuda") == "triton"
    assert choice("triton") == choice("triton", device="cuda", width=129) == "sdpa"
    assert choice("triton", device="cuda", dtype=torch.float64) == "sdpa"
    assert choice("triton", FACTORS._replace(query=torch.zeros(3, 5, 129)), device="cuda") == "factors"
    assert choice("factors", torch.zeros(3, 5, 5)) == choice("factors", BY_DISTANCE) == "sdpa"


def parts(backend, terms, device="cuda", dtype=torch.float32, width=64):
    return takes_parts(backend, terms, torch.device(device), dtype, width)


def test_who_gets_parts_and_tokens_side_by_side():
    long, pairs = BY_DISTANCE._replace(length=2048), BY_DISTANCE._replace(segments=torch.zeros(2, 5).bool())
    assert parts("triton", long) and not parts("triton", long._replace(length=2047))
    assert parts("triton", pairs) and not parts("triton", pairs._replace(segments=torch.zeros(1, 1).bool()))
    assert not parts("triton", long, width=129) and not parts("triton", long, dtype=torch.float64)
    assert parts("auto", FACTORS) and not parts("auto", BY_DISTANCE) and not parts("auto", FACTORS, "cpu")
    assert parts("factors", FACTORS, "cpu") and not parts("factors", BY_DISTANCE, "cpu")
    assert parts("flex", BY_DISTANCE, "cpu") and not parts("sdpa", FACTORS)
    assert takes_packed("triton", "cuda", torch.bfloat16, 64) and takes_packed("flex", "cuda", torch.float32, 64)
    assert not takes_packed("auto", "cuda", torch.bfloat16, 64) and not takes_packed("flex", "cpu", torch.float32, 64)
