"""DIET-ABS: absolute positions as one low-rank matrix a head (Chen et al. 2021, eq. 1)."""

from typing import ClassVar

import torch
from torch import Tensor, nn

from tupe.position.absolute import INIT_STD
from tupe.position.length import Span, check_length, fit_positions, take
from tupe.position.precision import at_least_float32, no_autocast


class LowRankAbsolute(nn.Module):
    """DIET-ABS: `absolute(i, j) = P_Q[i] . P_K[j]` per head, without a scale; the content keeps `1 / sqrt(d_h)`.

    Args:
        max_positions: number of positions `n`.
        rank: `d_p`, the width of both factors.
        num_heads: `H`.
        num_keys: rows of `P_K` where the keys are not positions (Linformer's `k`; DIET-ABS-LIN, eq. 4).
    """

    scale = 1.0
    head_axes: ClassVar[dict[str, int]] = {"query": 0, "key": 0}

    def __init__(self, max_positions: int, rank: int, num_heads: int, num_keys: int | None = None) -> None:
        super().__init__()
        self.max_positions = max_positions
        self.num_heads = num_heads
        self.width = rank
        self.num_keys = num_keys
        self.query = nn.Parameter(torch.empty(num_heads, max_positions, rank))
        self.key = nn.Parameter(torch.empty(num_heads, num_keys or max_positions, rank))
        for factor in (self.query, self.key):
            nn.init.normal_(factor, std=INIT_STD)
        fit_positions(self, "query", 1)
        if num_keys is None:
            fit_positions(self, "key", 1)

    def forward(
        self, length: int, num_keys: int | None = None, query_offset: int = 0, factors: bool = False
    ) -> Tensor | tuple[Tensor, Tensor]:
        """Compute `absolute(i, j)` for a block of positions; see `PositionBias.forward`.

        Returns:
            `(H, length, num_keys)`, or with `factors` rows of `P_Q` `(H, length, d_p)` and `P_K` `(H, num_keys, d_p)`.
            Linformer's keys are always all there.
        """
        span = Span.of(length, num_keys, query_offset)
        check_length(span.end, self.max_positions)
        query, key = take(self.query, 1, span.queries), self.key if self.num_keys else take(self.key, 1, span.keys)
        query, key = at_least_float32(query), at_least_float32(key)
        if factors:
            return query, key
        with no_autocast(query.device):
            return query.bmm(key.transpose(1, 2))
