"""Relative positions: one learned value per head and distance `j - i` (key minus query), binned, clipped or neither.

Raffel et al. 2020 (T5); TUPE, eq. 8; Chen et al. 2021 (DIET-REL), eq. 3. Each term maps distances `(D,)` to values
`(H, D)`.
"""

from bisect import bisect_left

import torch
from torch import Tensor, nn

from tupe.layers import Linear
from tupe.position.absolute import INIT_STD, normal
from tupe.position.length import fit_positions
from tupe.position.registry import register_relative


class TableRelative(nn.Module):
    """A table of values, `rows x H`. A subclass implements `row`, which maps each distance to its row."""

    def __init__(self, rows: int, num_heads: int) -> None:
        super().__init__()
        self.head_axes = {"weight": 1}
        self.num_heads = num_heads
        self.weight = normal(rows, num_heads)

    def row(self, distance: Tensor) -> Tensor:
        raise NotImplementedError

    def forward(self, distance: Tensor) -> Tensor:
        return self.weight[self.row(distance)].t()  # D -> D H -> H D


@register_relative("bucketed")
class BucketedRelative(TableRelative):
    """T5's buckets: near distances have one each, far ones share them.

    Half of the buckets are for keys after the query, except in T5's decoder, which has none for them. On each side, the
    first half of the buckets have one distance each, and the others grow logarithmically up to `max_distance`. All
    greater distances share the last bucket.
    """

    def __init__(
        self, num_heads: int, num_buckets: int = 32, max_distance: int = 128, bidirectional: bool = True
    ) -> None:
        super().__init__(num_buckets, num_heads)
        self.buckets_per_side = num_buckets // 2 if bidirectional else num_buckets
        fits = num_buckets % 2 == 0 and max_distance > self.buckets_per_side // 2
        assert fits, f"num_buckets={num_buckets} is odd or too large for max_distance={max_distance}"
        self.bidirectional = bidirectional
        exact = self.buckets_per_side // 2
        self.boundaries = bucket_boundaries(exact, self.buckets_per_side - exact, max_distance)

    def row(self, distance: Tensor) -> Tensor:
        far = distance.abs() if self.bidirectional else distance.neg().clamp(min=0)
        bucket = torch.bucketize(far, torch.tensor(self.boundaries, device=far.device), right=True)
        return bucket + self.buckets_per_side * (distance > 0) if self.bidirectional else bucket


def bucket_boundaries(exact: int, steps: int, far: int, beyond: bool = False) -> list[int]:
    """Return the smallest distance of each bucket but the first, found with integers so that no boundary is rounded.

    Each distance up to `e = exact` starts a bucket. The following buckets, `k = 1 .. steps - 1`, start at the smallest
    `D` with `D >= e (far / e)^(k / steps)`, which is computed as `D^steps e^k >= far^k e^steps` (T5). If `beyond`
    (DeBERTa), the comparison is `>`, and `k = 0 .. steps`.
    """
    boundaries = list(range(1, exact + 1))
    for k in range(1 - beyond, steps + beyond):
        bound = far**k * exact**steps + beyond
        boundaries.append(bisect_left(range(far + beyond), bound, exact, key=lambda d: d**steps * exact**k))
    return boundaries


@register_relative("clipped")
class ClippedRelative(TableRelative):
    """One value for each distance up to `max_distance`; greater distances share the last (Shaw et al. 2018)."""

    def __init__(self, num_heads: int, max_distance: int = 128) -> None:
        super().__init__(2 * max_distance + 1, num_heads)
        self.max_distance = max_distance

    def row(self, distance: Tensor) -> Tensor:
        return distance.clamp(-self.max_distance, self.max_distance) + self.max_distance


@register_relative("unbinned")
class UnbinnedRelative(TableRelative):
    """DIET-REL: one value for each of the `2 n - 1` distances, or in a decoder of the `n` that are not above 0."""

    def __init__(self, num_heads: int, max_positions: int, bidirectional: bool = True) -> None:
        super().__init__(2 * max_positions - 1 if bidirectional else max_positions, num_heads)
        self.max_positions, self.bidirectional = max_positions, bidirectional
        fit_positions(self, "weight", 0, centered=bidirectional)

    def row(self, distance: Tensor) -> Tensor:
        return distance + self.max_positions - 1 if self.bidirectional else distance.neg().clamp(min=0)


@register_relative("parametric")
class ParametricRelative(nn.Module):
    """Product `relative(j - i) = (r_{j-i} F^Q) (r_{j-i} F^K)^T` per head, unscaled; clipped at `max_distance`.

    TUPE, appendix D: "the improvement is just marginal"; an ablation.
    """

    def __init__(self, embed_dim: int, num_heads: int, head_dim: int, max_distance: int = 128) -> None:
        super().__init__()
        self.head_axes = {"query.weight": 0, "key.weight": 0}
        self.num_heads, self.max_distance = num_heads, max_distance
        self.weight = normal(2 * max_distance + 1, embed_dim)
        self.query = Linear(embed_dim, num_heads * head_dim, bias=False)
        self.key = Linear(embed_dim, num_heads * head_dim, bias=False)
        for projection in (self.query, self.key):
            nn.init.normal_(projection.weight, std=INIT_STD)

    def forward(self, distance: Tensor) -> Tensor:
        products = self.query(self.weight) * self.key(self.weight)  # 2t+1 H*d_h
        values = products.unflatten(-1, (self.num_heads, -1)).sum(-1)  # 2t+1 H
        return values[distance.clamp(-self.max_distance, self.max_distance) + self.max_distance].t()


def per_side(values: Tensor, distance: Tensor) -> Tensor:
    """Select for each distance the value of its side, `(H, D)`.

    Row 0 of `values` `(2, H)` is for keys up to the query, and row 1 for keys after it; one row `(1, H)` is for both.
    """
    return torch.where(distance > 0, values[-1].unsqueeze(-1), values[0].unsqueeze(-1))
