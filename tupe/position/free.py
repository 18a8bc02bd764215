"""A free correlation of every pair of positions (TUPE, appendix D: it "converges much slower"; an ablation)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tupe.position.absolute import INIT_STD
from tupe.position.length import check_length, fit_positions
from tupe.position.precision import at_least_float32


class FreeAbsolute(nn.Module):
    """`absolute(i, j) = V[i, j]` per head.

    Args:
        max_positions: `n`.
        num_heads: `H`.
    """

    def __init__(self, max_positions: int, num_heads: int) -> None:
        super().__init__()
        self.max_positions = max_positions
        self.weight = nn.Parameter(torch.empty(num_heads, max_positions, max_positions))
        nn.init.normal_(self.weight, std=INIT_STD)
        fit_positions(self, "weight", 1, 2)

    def forward(self, length: int) -> Tensor:
        """`absolute(i, j)` of the first `length` positions, `(H, length, length)`."""
        check_length(length, self.weight.shape[1])
        return at_least_float32(self.weight[:, :length, :length])

    def extra_repr(self) -> str:
        return "{}, {}, {}".format(*self.weight.shape)
