"""Absolute positions: a free value for each pair (TUPE, appendix D: it "converges much slower"; an ablation)."""

from typing import ClassVar

import torch
from torch import Tensor, nn

from tupe.position.absolute import INIT_STD
from tupe.position.length import Span, check_length, fit_positions, take
from tupe.position.precision import at_least_float32


class FreeAbsolute(nn.Module):
    """Table `V: H x n x n` of free values, `absolute(i, j) = V[i, j]` per head.

    Args:
        max_positions: number of positions `n`.
        num_heads: `H`.
    """

    head_axes: ClassVar[dict[str, int]] = {"weight": 0}

    def __init__(self, max_positions: int, num_heads: int) -> None:
        super().__init__()
        self.max_positions = max_positions
        self.num_heads = num_heads
        self.weight = nn.Parameter(torch.empty(num_heads, max_positions, max_positions))
        nn.init.normal_(self.weight, std=INIT_STD)
        fit_positions(self, "weight", 1, 2)

    def forward(self, length: int, num_keys: int | None = None, query_offset: int = 0) -> Tensor:
        """Return `absolute(i, j)` for a block of positions, `(H, length, num_keys)`; see `PositionBias.forward`."""
        span = Span.of(length, num_keys, query_offset)
        check_length(span.end, self.max_positions)
        return at_least_float32(take(take(self.weight, 1, span.queries), 2, span.keys))
