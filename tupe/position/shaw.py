r"""Relative positions as vectors added to the keys and optionally to the values (Shaw et al. 2018).

    logit(i, j) = q_i . (k_j + a[j - i])          out_i = sum_j weight_ij (v_j + a^V[j - i])

with distances beyond `t` clipped. The term depends on the content, so each layer computes its own. No `n x n x d_h`
tensor is made. `q_i . a[c]` for the `2n + 1` distances `c` is one matrix product, `(B, H, n, 2n + 1)`. Row `i` of the
`n x n` term is a window of row `i` of this product, and moves by one from row to row. In memory that is a view with
another stride (the "skewing" of Huang et al. 2018). Cost: the multiplications of two more `q k^T`, and a tensor of
twice the size of the attention weights.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tupe.position.absolute import normal
from tupe.position.terms import skew


def unskew(by_key: Tensor) -> Tensor:
    """Apply the transpose of `skew`: keys `(..., n, m)` to distances `(..., n, n + m + 1)`, zero without a key."""
    length, num_keys = by_key.shape[-2:]
    flat = F.pad(by_key, (0, length)).flatten(-2)
    return F.pad(flat, (length, 0)).unflatten(-1, (length, length + num_keys + 1))


class ShawRelative(nn.Module):
    """Tables `a` and, if `values`, `a^V`, each `(2t + 1) x d_h` and shared by the heads; `t` is `max_distance`.

    In a decoder they have `t + 1` rows, for `-t .. 0`. `a^V` needs attention weights, which no fused kernel returns.
    """

    def __init__(
        self, head_dim: int, max_distance: int = 128, values: bool = False, bidirectional: bool = True
    ) -> None:
        super().__init__()
        self.max_distance = max_distance
        rows = (2 if bidirectional else 1) * max_distance + 1
        self.key = normal(rows, head_dim)
        self.value = normal(rows, head_dim) if values else None

    def by_distance(self, table: Tensor, length: int, num_keys: int) -> Tensor:
        """Return the vectors of the distances `-num_keys .. length`: rows of `table`, its ends repeated as needed."""
        row = torch.arange(-num_keys, length + 1, device=table.device) + self.max_distance
        return F.embedding(row.clamp(0, len(table) - 1), table)

    def forward(self, query: Tensor, key: Tensor, scale: float, *unused: object) -> Tensor:
        """Compute `scale * q_i . a[j - i]`, `(B, H, n, m)`, of `query` `(B, H, n, d_h)` and `key` `(B, H, m, d_h)`.

        The queries are at the last `n` of `m` positions.
        """
        return skew(query @ (scale * self.by_distance(self.key, query.shape[-2], key.shape[-2])).t())

    def weighted_values(self, weights: Tensor) -> Tensor:
        """Compute `sum_j weight_ij a^V[j - i]`, `(B, H, n, d_h)`, of `weights` `(B, H, n, m)`; see `forward`."""
        length, num_keys = weights.shape[-2:]
        vectors = self.by_distance(self.value, length, num_keys)  # pyright: ignore[reportArgumentType]
        return unskew(weights) @ vectors.to(weights.dtype)
