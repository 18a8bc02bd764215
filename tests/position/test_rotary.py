"""Rotary positions: p-RoPE, gradients and half precision; `tests/contract` has their equation."""

import pytest
import torch

from tupe.position import LowRankAbsolute, PositionBias, Rotary, rotate

WIDTH, LENGTH = 16, 40
POSITIONS = torch.arange(LENGTH, dtype=torch.float64)


@pytest.mark.parametrize("p", [0.25, 0.75])
def test_p_rope_keeps_the_fastest_share_of_the_angles(p):
    """`rotary_dims = p d_h` and `rotary_base = 10000^p` (Barbero et al. 2025)."""
    kept, planes = Rotary(WIDTH, int(p * WIDTH), 1e4**p)(POSITIONS), Rotary(WIDTH)(POSITIONS).chunk(2, -1)
    fastest = [plane[..., : int(p * WIDTH / 2)] for plane in planes]
    torch.testing.assert_close(kept, torch.cat(fastest, -1), rtol=0, atol=1e-12)


@pytest.mark.parametrize("dims", [-1, 6])
def test_gradients(dims):
    x, rotation = (
        torch.randn(2, 5, 3, WIDTH, dtype=torch.float64, requires_grad=True),
        Rotary(WIDTH, dims)(POSITIONS[:5]),
    )
    assert torch.autograd.gradgradcheck(lambda x: rotate(x, rotation), x)
    assert torch.autograd.gradcheck(lambda x: rotate(x, rotation), x, check_batched_grad=True)
    both = (x.detach(), rotation.requires_grad_())  # angles that learn
    assert torch.autograd.gradcheck(rotate, both)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@torch.no_grad()
def test_angles_stay_float32(dtype):
    """In bfloat16 the positions beyond 256 would not be told apart; the result is rounded once."""
    position = PositionBias(LowRankAbsolute(512, 2, 3), rotation=Rotary(WIDTH))
    want = position(512).rotation
    assert torch.equal(position.to(dtype)(512).rotation, want) and want.dtype == torch.float32
    x = torch.randn(512, 3, WIDTH).to(dtype)
    torch.testing.assert_close(rotate(x, want), rotate(x.double(), want.double()).to(dtype), rtol=0.01, atol=0.01)
