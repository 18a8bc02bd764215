"""Absolute positions as one matrix per head: of low rank (DIET-ABS; Chen et al. 2021, eq. 1), or unconstrained."""

import torch
from torch import Tensor, nn

from tupe.position.absolute import normal
from tupe.position.length import fit_positions, take
from tupe.position.registry import register_absolute


@register_absolute("low_rank")
class LowRankAbsolute(nn.Module):
    """DIET-ABS: `absolute(i, j) = P_Q[i] . P_K[j]` per head, without a scale; the content keeps `1 / sqrt(d_h)`.

    `rank` is `d_p`. `num_keys` is the number of rows of `P_K` if the keys are not positions (Linformer's `k`; eq. 4).
    """

    def __init__(self, max_positions: int, rank: int, num_heads: int, num_keys: int | None = None) -> None:
        super().__init__()
        self.head_axes = {"query": 0, "key": 0}
        self.max_positions, self.num_heads, self.num_keys = max_positions, num_heads, num_keys
        self.query = normal(num_heads, max_positions, rank)
        self.key = normal(num_heads, num_keys or max_positions, rank)
        fit_positions(self, "query", 1)
        if num_keys is None:
            fit_positions(self, "key", 1)

    def forward(self, length: int) -> tuple[Tensor, Tensor]:
        """Return the first `length` rows of `P_Q` and `P_K`, `(H, length, d_p)` each; all rows of Linformer's `P_K`."""
        key = take(self.key, length) if self.num_keys is None else self.key
        return take(self.query, length).clone(), key.clone()  # FSDP frees the parameters' own memory after `forward`


@register_absolute("free")
class FreeAbsolute(nn.Module):
    """Table `V: H x n x n`, `absolute(i, j) = V[i, j]` (TUPE, appendix D: it "converges much slower"; an ablation)."""

    def __init__(self, max_positions: int, num_heads: int) -> None:
        super().__init__()
        self.head_axes = {"weight": 0}
        self.max_positions, self.num_heads = max_positions, num_heads
        self.weight = normal(num_heads, max_positions, max_positions)
        fit_positions(self, "weight", 1, 2)

    def forward(self, length: int) -> tuple[Tensor, Tensor]:
        """Return `V` and the identity, `(H, length, length)` each."""
        values = take(self.weight, length)[..., :length].clone()  # for FSDP, as above
        identity = torch.eye(length, dtype=values.dtype, device=values.device)
        return values, identity.expand_as(values)
