import pytest
import torch
import torch.nn.functional as F

from tupe.attention import biased_attention
from tupe.position import AlibiRelative, DualTriangleRelative, PositionBias
from tupe.systems import MODELS


@torch.no_grad()
def test_is_two_triangles_of_halved_heads():
    """As the paper writes it: of each head of 8 columns, 4 see the past and 4 the future."""
    query, key, value = torch.randn(3, 2, 3, 7, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    triangles = (slice(4), torch.ones(7, 7).tril().bool()), (slice(4, 8), torch.ones(7, 7).triu().bool())
    down, up = (
        F.scaled_dot_product_attention(query[..., half], key[..., half], value[..., half], mask)
        for half, mask in triangles
    )
    halves = (x.unflatten(-1, (2, 4)).transpose(2, 3).flatten(1, 2) for x in (query, key, value))  # B 2H n 4
    position = PositionBias(None, AlibiRelative(6)).eval()
    _, position.relative = position(7), DualTriangleRelative(6)  # the cache still has ALiBi
    out = biased_attention(*halves, position(7).bias, scale=0.5)
    torch.testing.assert_close(out[:, 0::2], down)
    torch.testing.assert_close(out[:, 1::2], up)


def test_named_models_halve_their_heads():
    heads = {name: MODELS[f"{name}_small"]["encoder_attention_heads"] for name in ("tupe_r", "dual_triangle")}
    assert heads == {"tupe_r": 8, "dual_triangle": 16}


@pytest.mark.parametrize("fields", [{"sharing": "head"}, {"bidirectional": False}])
def test_needs_both_sides_in_a_layer(fields):
    with pytest.raises(AssertionError, match="dual_triangle needs an encoder"):
        DualTriangleRelative(4, **fields)
