r"""ALiBi: a slope for each head times the distance (Press et al. 2022), for attention in both directions.

symmetric     -m_h |j - i|                                   as in the encoders MosaicBERT and Jina
learned       -m_h^- (i - j) for j < i,  -m_h^+ (j - i) for j > i
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tupe.position.registry import register_relative
from tupe.position.relative import per_side


def alibi_slopes(num_heads: int) -> list[float]:
    """Return the slopes of ALiBi's code, `2^(-8 (h + 1) / H)` for `H` heads.

    If `H` is not a power of 2, they are the slopes of the next lower power, then every second slope of the next higher.
    """
    power = 1 << (num_heads.bit_length() - 1)
    return [
        2 ** (-8 * (head + 1) / power) if head < power else 2 ** (-4 * (2 * (head - power) + 1) / power)
        for head in range(num_heads)
    ]


@register_relative("alibi")
class AlibiRelative(nn.Module):
    """ALiBi: the logit falls by `m_h` with each step of distance.

    `relative_sides` is `symmetric` or `learned`, as above. Each layer has, or starts from, the same slopes.
    """

    def __init__(
        self, num_heads: int, *, relative_sides: str = "symmetric", layer_heads: int | None = None,
        sharing: str = "layer", bidirectional: bool = True,
    ) -> None:  # fmt: skip
        super().__init__()
        self.head_axes = {"slope": 1}
        assert sharing != "head", "ALiBi's heads differ in their slopes: set sharing to layer or none"
        self.num_heads = num_heads
        layer_heads = layer_heads or num_heads
        self.slopes = alibi_slopes(layer_heads) * (num_heads // layer_heads)
        self.slope = None
        if {"symmetric": False, "learned": True}[relative_sides]:
            slopes = torch.tensor(self.slopes).view(-1, layer_heads)  # a row per layer
            sides = torch.stack((slopes, slopes.flip(1)) if bidirectional else (slopes,)).flatten(1)
            self.slope = nn.Parameter(sides.expm1().log())

    def forward(self, distance: Tensor) -> Tensor:
        if self.slope is not None:
            return -per_side(F.softplus(self.slope), distance) * distance.abs()
        return torch.tensor(self.slopes, device=distance.device).unsqueeze(-1) * -distance.abs()
