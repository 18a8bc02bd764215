import pytest
import torch
import torch.nn.functional as F

from tupe.dropout import Dropout, dropout


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


def test_numbers_are_independent():
    """Neighbours, which share a draw, are kept together as often as chance has it."""
    torch.manual_seed(1)
    kept = (dropout(torch.ones(4_000_000), 0.5) != 0).view(-1, 4)
    patterns = (kept * torch.tensor([8, 4, 2, 1])).sum(1).bincount(minlength=16)
    assert (patterns - 62_500).abs().max() < 5 * (1_000_000 / 16) ** 0.5


def test_the_generator_repeats_it():
    x = torch.ones(3, 1001)
    masks = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        masks.append(dropout(x, 0.3))
    assert torch.equal(masks[0], masks[1])
    assert not torch.equal(masks[0], masks[2])


@pytest.mark.parametrize("shape", [(), (1,), (0, 3), (5, 3)])
def test_shapes(shape):
    assert dropout(torch.ones(shape), 0.5).shape == shape
    transposed = torch.ones(*shape, 2).transpose(0, -1)
    assert dropout(transposed, 0.5).shape == transposed.shape


def test_limits():
    x = torch.randn(100)
    assert torch.equal(dropout(x, 0.0), x)
    assert torch.equal(dropout(x, 0.7, training=False), x)
    assert not dropout(x, 1.0).any()
    assert dropout(x, 0.999999).isfinite().all()
    with pytest.raises(ValueError, match="dropout probability"):
        dropout(x, 1.5)


def test_module():
    x, module = torch.ones(1000), Dropout(0.4)
    torch.manual_seed(3)
    trained = module(x)
    torch.manual_seed(3)
    assert torch.equal(trained, dropout(x, 0.4))
    assert torch.equal(module.eval()(x), F.dropout(x, 0.4, training=False))
