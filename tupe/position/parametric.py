"""Relative positions by products of vectors (TUPE, appendix D: "the improvement is just marginal"; an ablation)."""

from typing import ClassVar

import torch
from torch import Tensor, nn

from tupe.layers import Linear
from tupe.position.absolute import INIT_STD
from tupe.position.precision import in_float32
from tupe.position.relative import RelativeTerm, clipped_row


class ParametricRelative(RelativeTerm):
    """Product `relative(j - i) = (r_{j-i} F^Q) (r_{j-i} F^K)^T` per head, unscaled; distances beyond `t` are clipped.

    Args:
        embed_dim: width `d` of the vectors `r`.
        num_heads: `H`.
        head_dim: `d_h`; `F^Q, F^K` are `d x H d_h`.
        max_distance: `t`; there are `2 t + 1` vectors.
    """

    head_axes: ClassVar[dict[str, int]] = {"query.weight": 0, "key.weight": 0}

    def __init__(self, embed_dim: int, num_heads: int, head_dim: int, max_distance: int = 128) -> None:
        super().__init__()
        self.max_distance = max_distance
        self.num_heads = num_heads
        self.head_dim = head_dim
        self.weight = nn.Parameter(torch.empty(2 * max_distance + 1, embed_dim))
        self.query = Linear(embed_dim, num_heads * head_dim, bias=False)
        self.key = Linear(embed_dim, num_heads * head_dim, bias=False)
        for parameter in self.parameters():
            nn.init.normal_(parameter, std=INIT_STD)

    def row(self, distance: Tensor) -> Tensor:
        return clipped_row(distance, self.max_distance)

    def values(self) -> Tensor:
        products = in_float32(self.query, self.weight) * in_float32(self.key, self.weight)  # (2t + 1, H d_h)
        return products.unflatten(-1, (-1, self.head_dim)).sum(-1)
