"""Relative positions: one learnt value a head for each distance `j - i` (key minus query), binned, clipped or neither.

Raffel et al. 2020 (T5); TUPE, eq. 9; Chen et al. 2021 (DIET-REL), eq. 3. The value depends on `j - i` alone, so the
`H x n x n` term is Toeplitz: `2n - 1` values a head, laid along the diagonals.
"""

import math
from bisect import bisect_left
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tupe.position.absolute import INIT_STD
from tupe.position.length import Span, check_length, fit_positions
from tupe.position.precision import at_least_float32


def toeplitz(values: Tensor, num_keys: int) -> Tensor:
    """Lay `values` `(H, n + m - 1)` of the distances `-(n-1) .. m-1` on the diagonals of an `(H, n, m)` tensor.

    `out[h, i, j] = values[h, n-1 + j-i]`, and `m` is `num_keys`.
    """
    length = values.shape[-1] - num_keys + 1
    return skew(F.pad(values, (1, 1)).unsqueeze(-2).expand(-1, length, -1))


def skew(by_distance: Tensor) -> Tensor:
    """Select keys `(..., n, m)` from distances `-n .. m`, `(..., n, n + m + 1)`: `out[i, j] = in[i, n + j - i]`."""
    length, width = by_distance.shape[-2:]
    # cell (i, n + j - i) is number i width + n + j - i = n + i (width - 1) + j of the row-major matrix
    return by_distance.flatten(-2)[..., length:].unflatten(-1, (length, width - 1))[..., : width - length - 1]


class RelativeTerm(nn.Module):
    """Base of the relative terms. A subclass has a table, `values`, and tells the `row` of each distance in it.

    A term without a table overrides `by_distance` instead; see `tupe.position.Term`.
    """

    max_positions = math.inf

    def row(self, distance: Tensor) -> Tensor:
        """Return the table's row for each `distance = j - i`, in the same shape (int64)."""
        raise NotImplementedError

    def values(self) -> Tensor:
        """Return the table, `(rows, H)`, in float32 or better."""
        raise NotImplementedError

    def by_distance(self, first: int, stop: int) -> Tensor:
        """Compute `relative(d)` of the distances `first .. stop - 1`, `(H, stop - first)`, in float32 or better."""
        values = self.values()
        return values[self.row(torch.arange(first, stop, device=values.device))].t()

    def forward(
        self,
        length: int,
        num_keys: int | None = None,
        query_offset: int = 0,
        by_distance: bool = False,
    ) -> Tensor:
        """Compute `relative(j - i)` for a block of positions; see `PositionBias.forward`.

        Returns:
            `(H, length, num_keys)`. With `by_distance` one value for each distance, `(H, length + num_keys - 1)`; the
            first distance is from the last query to the first key.
        """
        span = Span.of(length, num_keys, query_offset)
        check_length(span.end, self.max_positions)
        values = self.by_distance(*span.distances)
        return values if by_distance else toeplitz(values, span.num_keys)


def of_side(values: Tensor, distance: Tensor) -> Tensor:
    """Give each distance the value of its side: key before the query, or after it.

    Args:
        values: `(2, H)`, row 0 for keys before the query and row 1 for those after it; `(1, H)` for both.
        distance: `j - i`, `(D,)`.

    Returns:
        `(H, D)`.
    """
    return torch.where(distance > 0, values[-1].unsqueeze(-1), values[0].unsqueeze(-1))


class RelativeBias(RelativeTerm):
    """Base of the relative terms that learn a table, one value for each row and head.

    Args:
        num_rows: rows of the table, `num_rows x H`.
        num_heads: `H`.
    """

    head_axes: ClassVar[dict[str, int]] = {"weight": 1}

    def __init__(self, num_rows: int, num_heads: int) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.weight = nn.Parameter(torch.empty(num_rows, num_heads))
        nn.init.normal_(self.weight, std=INIT_STD)

    def values(self) -> Tensor:
        return at_least_float32(self.weight)


class BucketedRelative(RelativeBias):
    """T5's buckets: near distances have one each, far ones share them.

    Half of the buckets are for keys after the query. In each half, the first half of the buckets have one distance
    each, and the others grow logarithmically up to `max_distance`. All greater distances share the last.

    Args:
        num_heads: `H`.
        num_buckets: even, at least 4.
        max_distance: greater than `num_buckets / 4`, or than `num_buckets / 2` if not `bidirectional`.
        bidirectional: `False` for T5's decoder, where all buckets are for keys before the query.
    """

    boundaries: Tensor

    def __init__(
        self, num_heads: int, num_buckets: int = 32, max_distance: int = 128, bidirectional: bool = True
    ) -> None:
        a_side = num_buckets // 2 if bidirectional else num_buckets
        fits = num_buckets % 2 == 0 and max_distance > a_side // 2
        assert fits, f"{num_buckets} buckets do not divide the distances up to {max_distance}"
        super().__init__(num_buckets, num_heads)
        self.after = a_side if bidirectional else 0  # first row of the keys after the query
        self.bidirectional = bidirectional
        boundaries = torch.tensor(bucket_boundaries(a_side, max_distance))
        self.register_buffer("boundaries", boundaries, persistent=False)

    def row(self, distance: Tensor) -> Tensor:
        distance_before = distance.abs() if self.bidirectional else distance.neg().clamp(min=0)
        bucket = torch.bucketize(distance_before, self.boundaries, right=True)
        return bucket + self.after * (distance > 0)


def bucket_boundaries(num_buckets: int, max_distance: int) -> list[int]:
    """Return the smallest distance of each bucket but the first, by integers, so that no rounding moves a boundary.

    With `e = num_buckets // 2` exact buckets and `m = num_buckets - e` logarithmic ones, bucket `e + k` starts at the
    smallest `D` with `D >= e (max_distance / e)^(k / m)`, which is `D^m e^k >= max_distance^k e^m`.
    """
    exact = num_buckets // 2
    steps = num_buckets - exact
    boundaries = list(range(1, exact + 1))
    for k in range(1, steps):
        bound = max_distance**k * exact**steps
        boundaries.append(bisect_left(range(max_distance), bound, boundaries[-1], key=lambda d: d**steps * exact**k))
    return boundaries


def clipped_row(distance: Tensor, max_distance: int) -> Tensor:
    """Return each distance's row in a table of `-max_distance .. max_distance`; greater distances have an end's row."""
    return distance.clamp(-max_distance, max_distance) + max_distance


class ClippedRelative(RelativeBias):
    """One value for each distance up to `max_distance`; greater distances share the last (Shaw et al. 2018).

    Args:
        num_heads: `H`.
        max_distance: `t`; the table has `2 t + 1` rows.
    """

    def __init__(self, num_heads: int, max_distance: int = 128) -> None:
        super().__init__(2 * max_distance + 1, num_heads)
        self.max_distance = max_distance

    def row(self, distance: Tensor) -> Tensor:
        return clipped_row(distance, self.max_distance)


class UnbinnedRelative(RelativeBias):
    """DIET-REL: one value for each of the `2 n - 1` distances.

    Args:
        num_heads: `H`.
        max_positions: `n`.
        bidirectional: `False` for a decoder, where no key comes after the query: `n` distances.
    """

    def __init__(self, num_heads: int, max_positions: int, bidirectional: bool = True) -> None:
        super().__init__(2 * max_positions - 1 if bidirectional else max_positions, num_heads)
        self.max_positions = max_positions
        self.bidirectional = bidirectional
        fit_positions(self, "weight", 0, centred=bidirectional)

    def row(self, distance: Tensor) -> Tensor:
        return distance + self.max_positions - 1 if self.bidirectional else distance.neg().clamp(min=0)
