"""DIET-ABS: absolute positions as one low-rank matrix a head (Chen et al. 2021, eq. 1)."""

from __future__ import annotations

from typing import Optional

import torch
from torch import Tensor, nn

from tupe.errors import UserError
from tupe.position.absolute import INIT_STD
from tupe.position.length import check_length, fit_positions
from tupe.position.precision import at_least_float32


class LowRankAbsolute(nn.Module):
    """`absolute(i, j) = P_Q[i] . P_K[j]` per head, without a scale; the content keeps `1 / sqrt(d_h)`.

    Args:
        max_positions: `n`.
        rank: `d_p`, the width of both factors.
        num_heads: `H`.
        num_keys: rows of `P_K`, where the keys are not the positions (`k` of Linformer; DIET-ABS-LIN, eq. 4).

    Raises:
        UserError: for a rank below 1.
    """

    scale = 1.0

    def __init__(self, max_positions: int, rank: int, num_heads: int, num_keys: Optional[int] = None) -> None:
        super().__init__()
        if rank < 1:
            raise UserError(f"position_rank is {rank}, but must be at least 1")
        self.max_positions = max_positions
        self.width = rank
        self.num_keys = num_keys
        self.query = nn.Parameter(torch.empty(num_heads, max_positions, rank))
        self.key = nn.Parameter(torch.empty(num_heads, num_keys or max_positions, rank))
        for factor in (self.query, self.key):
            nn.init.normal_(factor, std=INIT_STD)
        fit_positions(self, "query", 1)
        if num_keys is None:
            fit_positions(self, "key", 1)

    def factors(self, length: int) -> tuple[Tensor, Tensor]:
        """`P_Q` and `P_K` of the first `length` positions, each `(H, length, d_p)`, or `P_K` `(H, k, d_p)`."""
        check_length(length, self.query.shape[1])
        return at_least_float32(self.query[:, :length]), at_least_float32(self.key[:, : self.num_keys or length])

    def forward(self, length: int) -> Tensor:
        """`absolute(i, j)` of the first `length` positions, `(H, length, length)`, or `(H, length, k)`."""
        query, key = self.factors(length)
        return query @ key.transpose(1, 2)

    def extra_repr(self) -> str:
        return f"query={tuple(self.query.shape)}, key={tuple(self.key.shape)}"
