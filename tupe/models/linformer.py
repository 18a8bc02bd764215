"""Linformer (Wang et al. 2020): keys and values of `k` rows, whatever the length, so that attention costs `n k`."""

import torch
from torch import Tensor, nn

from tupe.position.length import fit_positions, take


class LengthProjection(nn.Module):
    """Projection `E x` of `n` positions to `k` rows, from which a layer makes its keys and values.

    Each layer has one `E: k x n` for all heads, for keys `(E x) W^K` and values `(E x) W^V` (Wang et al.'s "key-value
    sharing"; Chen et al. 2021, eq. 4). A shorter sequence uses the first columns of `E`; padding counts as zero.

    Args:
        max_positions: `n`, the longest input.
        num_keys: `k`, the number of keys.
    """

    def __init__(self, max_positions: int, num_keys: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(num_keys, max_positions))
        nn.init.normal_(self.weight, std=max_positions**-0.5)  # E x has the scale of x
        fit_positions(self, "weight", 1)

    def forward(self, x: Tensor, padding_mask: Tensor | None) -> Tensor:
        """Compute `E x`, `(B, k, d)`, of `x` `(B, T, d)`; `padding_mask` `(B, T)` is true at padding."""
        if padding_mask is not None:
            x = x.masked_fill(padding_mask.unsqueeze(-1), 0)
        return take(self.weight, 1, slice(x.shape[1])) @ x
