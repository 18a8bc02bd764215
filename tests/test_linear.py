"""`tupe.linear` against float64, by whichever library this CPU gets and by oneDNN."""

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

import tupe.linear
from tupe.linear import OneDNNLinear, linear

HAS_ONEDNN = hasattr(torch.ops.mkldnn, "_linear_pointwise")
needs_onednn = pytest.mark.skipif(not HAS_ONEDNN, reason="this PyTorch comes without oneDNN")
FUNCTIONS = [linear, pytest.param(OneDNNLinear.apply, marks=needs_onednn)]


def outputs(function, x, weight, bias, seed):
    """The product and its gradients, in the type of the arguments."""
    leaves = [None if t is None else t.clone().requires_grad_() for t in (x, weight, bias)]
    out = function(*leaves)
    grad = torch.randn(out.shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(out.dtype)
    out.backward(grad)
    return [out.detach(), *(leaf.grad for leaf in leaves if leaf is not None)]


@pytest.mark.parametrize("function", FUNCTIONS)
@settings(max_examples=25, deadline=None)
@given(
    shape=st.lists(st.integers(1, 9), min_size=1, max_size=3), n=st.integers(1, 70), m=st.integers(1, 70),
    has_bias=st.booleans(), strided=st.booleans(), seed=st.integers(0, 99),
)  # fmt: skip
def test_product_and_gradients_agree_with_float64(function, shape, n, m, has_bias, strided, seed):
    generator = torch.Generator().manual_seed(seed)
    x, weight, bias = (torch.randn(s, generator=generator) for s in ((*shape, n), (m, n), (m,)))
    if strided:
        x, weight = x.transpose(0, -2), torch.stack([weight, weight], dim=1)[:, 0]
    bias = bias if has_bias else None
    exact = outputs(F.linear, *(None if t is None else t.double() for t in (x, weight, bias)), seed)
    for got, want in zip(outputs(function, x, weight, bias, seed), exact):
        assert got.dtype == torch.float32
        assert got.shape == want.shape
        torch.testing.assert_close(got.double(), want, rtol=1e-5, atol=1e-4)


@needs_onednn
def test_second_derivative():
    x, weight = torch.randn(5, 7), torch.randn(3, 7)

    def second(function, x, weight):
        x, weight = x.clone().requires_grad_(), weight.clone().requires_grad_()
        (first,) = torch.autograd.grad(function(x, weight, None).pow(3).sum(), x, create_graph=True)
        return torch.autograd.grad(first.pow(2).sum(), weight)[0]

    torch.testing.assert_close(
        second(OneDNNLinear.apply, x, weight).double(),
        second(F.linear, x.double(), weight.double()),
        rtol=1e-4,
        atol=1e-3,
    )


class Taken(Exception):
    """oneDNN was asked."""


@pytest.fixture
def amd(monkeypatch):
    """As if on a CPU where oneDNN is faster; using it raises `Taken`."""

    def take(*_):
        raise Taken

    monkeypatch.setattr(tupe.linear, "onednn_is_faster", lambda: True)
    monkeypatch.setattr(tupe.linear.OneDNNLinear, "apply", take)


def test_float32_is_taken(amd):
    with pytest.raises(Taken):
        linear(torch.randn(2, 3), torch.randn(4, 3))


@pytest.mark.parametrize(
    "x", [torch.randn(2, 3).double(), torch.randn(2, 3).bfloat16(), torch.randn(3), torch.randn(0, 3)]
)
def test_what_is_left_to_pytorch(amd, x):
    weight = torch.randn(4, 3, dtype=x.dtype)
    assert torch.equal(linear(x, weight), F.linear(x, weight))


def test_switched_off(amd):
    x, weight = torch.randn(2, 3), torch.randn(4, 3)
    with torch.backends.mkldnn.flags(enabled=False):
        assert torch.equal(linear(x, weight), F.linear(x, weight))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert linear(x, weight).dtype == torch.bfloat16


def test_the_caches_of_primitives_are_small_unless_the_user_says_otherwise(monkeypatch):
    environment = {"LRU_CACHE_CAPACITY": "7"}
    monkeypatch.setattr(tupe.linear.os, "environ", environment)
    tupe.linear.keep_few_primitives()
    assert environment == {"LRU_CACHE_CAPACITY": "7", "ONEDNN_PRIMITIVE_CACHE_CAPACITY": "64"}
