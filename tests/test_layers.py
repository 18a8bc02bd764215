"""Linear layers against float64, by whichever library this CPU gets and by oneDNN; dropout's rate and independence."""

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

import tupe.layers
from tupe.layers import Linear, OneDNNLinear, dropout, linear

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
def test_second_derivatives_of_strided_input(monkeypatch):
    monkeypatch.setattr(tupe.layers, "onednn_is_faster", lambda: True)
    x, weight, found = torch.randn(3, 2, 4, requires_grad=True), torch.randn(5, 4, requires_grad=True), []
    for function in (linear, F.linear):
        loss = function(x.transpose(0, 1), weight).tanh().sum()
        (grad,) = torch.autograd.grad(loss, weight, create_graph=True)
        found.append(torch.autograd.grad(grad.square().sum(), x)[0])
    torch.testing.assert_close(*found)


@pytest.fixture
def amd(monkeypatch):
    """Pretend a CPU where oneDNN is faster, whose product is `None`."""
    monkeypatch.setattr(tupe.layers, "onednn_is_faster", lambda: True)
    monkeypatch.setattr(tupe.layers.OneDNNLinear, "apply", lambda *_: None)


def test_float32_is_taken(amd):
    assert linear(torch.randn(2, 3), torch.randn(4, 3)) is None


@pytest.mark.parametrize(
    "x", [torch.randn(2, 3).double(), torch.randn(2, 3).bfloat16(), torch.randn(3), torch.randn(0, 3)]
)
def test_what_is_left_to_pytorch(amd, x):
    weight = torch.randn(4, 3, dtype=x.dtype)
    assert torch.equal(linear(x, weight), F.linear(x, weight))


@pytest.mark.parametrize("bias", [False, True])
def test_a_layer_gives_some_of_its_outputs(bias):
    layer, x = Linear(5, 7, bias=bias), torch.randn(2, 3, 5)
    torch.testing.assert_close(layer(x), F.linear(x, layer.weight, layer.bias))
    torch.testing.assert_close(layer(x, slice(2, 6)), layer(x)[..., 2:6])


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("p", [0.02, 0.1, 0.5, 0.9])
def test_rate_scale_and_gradient(p, dtype):
    torch.manual_seed(0)
    x = torch.full((301, 7, 101), 2.0, dtype=dtype, requires_grad=True)
    out = dropout(x, p)
    out.sum().backward()
    kept = out != 0
    n = x.numel()
    assert kept.sum().item() == pytest.approx((1 - p) * n, abs=5 * (p * (1 - p) * n) ** 0.5)
    scale = 1 / (1 - p)
    torch.testing.assert_close(out[kept].unique().double(), torch.tensor([2 * scale]).double(), rtol=5e-3, atol=0)
    assert torch.equal(x.grad, out / 2)


def test_limits():
    x = torch.randn(100)
    assert torch.equal(dropout(x, 0.0), x)
    assert torch.equal(dropout(x, 0.7, training=False), x)
    assert not dropout(x, 1.0).any()
    assert dropout(x, 0.999999).isfinite().all()
