r"""Relative positions in the keys, and in the values (Shaw et al. 2018): they meet the words, so layers have their own.

    logit(i, j) = q_i . (k_j + a[j - i])          out_i = sum_j weight_ij (v_j + a^V[j - i])

with distances beyond `t` clipped. No `n x n x d_h` tensor is made: `q_i . a[c]` for the `2n + 1` distances `c` is one
matrix product, `(B, H, n, 2n + 1)`, and row `i` of the `n x n` term is a window of its row `i` that moves by one each
row, which in memory is a view with another stride (the "skewing" of Huang et al. 2018). Cost: the multiplications of
two more `q k^T`, and a tensor of twice the size of the attention weights.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tupe.position.absolute import INIT_STD
from tupe.position.relative import check_max_distance, skew


def unskew(by_key: Tensor) -> Tensor:
    """`(..., n, n)` to `(..., n, 2n + 1)`, the transpose of `skew`: distances that no key has are zero."""
    length = by_key.shape[-1]
    flat = F.pad(by_key, (0, length)).flatten(-2)
    return F.pad(flat, (length, 0)).unflatten(-1, (length, 2 * length + 1))


def with_far_rows(table: Tensor, length: int) -> Tensor:
    """The rows of the distances `-length .. length` of a `table` of `-t .. t`: fewer, or the ends repeated."""
    far = length - len(table) // 2
    if far <= 0:
        return table[-far : len(table) + far]
    return torch.cat([table[:1].expand(far, -1), table, table[-1:].expand(far, -1)])


class ShawRelative(nn.Module):
    """The vectors `a`, and `a^V` if asked for, each `(2t + 1) x d_h`, shared by the heads.

    Args:
        head_dim: `d_h`.
        max_distance: `t`, at least 1.
        values: whether there is `a^V`. Attention then needs its weights, and no fused kernel hands them out.
    """

    def __init__(self, head_dim: int, max_distance: int = 128, values: bool = False) -> None:
        super().__init__()
        check_max_distance(max_distance)
        self.key = nn.Parameter(torch.empty(2 * max_distance + 1, head_dim))
        self.value = nn.Parameter(torch.empty_like(self.key)) if values else None
        for parameter in self.parameters():
            nn.init.normal_(parameter, std=INIT_STD)

    def forward(self, query: Tensor, scale: float = 1.0) -> Tensor:
        """`scale * q_i . a[j - i]` of `query` `(B, H, n, d_h)`: `(B, H, n, n)`."""
        return skew(query @ (scale * with_far_rows(self.key, query.shape[-2])).t())

    def weighted_values(self, weights: Tensor) -> Tensor:
        """`sum_j weight_ij a^V[j - i]` of `weights` `(B, H, n, n)`: `(B, H, n, d_h)`."""
        return unskew(weights) @ with_far_rows(self.value, weights.shape[-1]).to(weights.dtype)

    def extra_repr(self) -> str:
        return f"{tuple(self.key.shape)}, values={self.value is not None}"
