"""What positions add to the attention: parts whose size is linear in the length, and the bias that is their sum."""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from tupe.position.precision import no_autocast
from tupe.position.reset import reset_cls
from tupe.position.segment import segment_bias


class Terms(NamedTuple):
    r"""Parts of the attention logit of `n` queries and `m` keys. An absent part is `None`.

        logit_ij = scale (R_i q_i + content_query_i) . (R_j k_j + content_key_j) + bias_ij
        bias_ij  = reset(query_i . key_j + relative[j - i]) + segment[s_i, s_j]

    Attributes:
        length: `n`, the number of queries.
        first: position of the first query.
        query: `(H, n, r)`, scaled.
        key: `(H, m, r)`.
        relative: `(H, n + m - 1)`, one value for each distance `j - i`; the first is from the last query to key 0.
        theta: `(2, H)`, `theta_1` for row 0 and `theta_2` for the rest of column 0; see `reset_cls`.
        segment: `(H, 2, 2)`, DIET's `E_S`.
        segments: `s`, `(B, n)`, bool, true in segment 1; `(1, 1)` if all tokens are in one segment.
        rotation: `(2, n, r)`, the rotation `R` of queries and keys; see `rotate`.
        content_query, content_key: `(H, n, d_h)` and `(H, m, d_h)`, added to the projected content (BERT-A^d).
        distances: `(2 n + 1, d)`, vectors of the distances `-n .. n`, which each layer projects (DeBERTa).
    """

    length: int = 0
    first: int = 0
    query: Tensor | None = None
    key: Tensor | None = None
    relative: Tensor | None = None
    theta: Tensor | None = None
    segment: Tensor | None = None
    segments: Tensor | None = None
    rotation: Tensor | None = None
    content_query: Tensor | None = None
    content_key: Tensor | None = None
    distances: Tensor | None = None

    @property
    def bias(self) -> Tensor | None:
        """The output of `dense`."""
        return self.dense()

    def dense(self) -> Tensor | None:
        """Compute the bias `(H, n, m)`, with segments `(B, H, n, n)`; `None` where it has no part."""
        bias = None
        if self.query is not None and self.key is not None:
            with no_autocast(self.query.device):
                bias = self.query @ self.key.mT
        if self.relative is not None:
            values = toeplitz(self.relative, self.length)
            bias = values if bias is None else bias + values
        if self.theta is not None and bias is not None:
            bias = reset_cls(bias, self.theta, self.first)
        if self.segment is not None and self.segments is not None:
            values = segment_bias(self.segment, self.segments)  # B H n n
            values = values[0] if values.shape[0] == 1 else values  # `len` would fix the batch size in a graph
            bias = values if bias is None else bias + values
        return bias

    def rounded(self, dtype: torch.dtype) -> Terms:
        """Return only the parts that meet the content, in `dtype`, but for the rotation, whose angles need 32 bits."""
        query, key, distances = (
            None if part is None else part.to(dtype) for part in (self.content_query, self.content_key, self.distances)
        )
        return Terms(rotation=self.rotation, content_query=query, content_key=key, distances=distances)

    def slice(self, length: int, num_keys: int | None = None, first: int = 0) -> Terms:
        """Return the terms of the queries `first .. first + length - 1` and the first `num_keys` keys.

        `self` must have `n = m`, except for Linformer's keys. By default the keys end at the last query.
        """
        queries, num_keys = slice(first, first + length), first + length if num_keys is None else num_keys
        relative, distances = self.relative, self.distances
        if relative is not None:
            begin = self.length - length - first  # the distance from the new last query to the first key
            relative = relative[:, begin : begin + length + num_keys - 1]
        if distances is not None:
            middle = len(distances) // 2
            distances = distances[middle - queries.stop : middle + queries.stop + 1]
        query, content_query, rotation = (
            None if part is None else part[:, queries] for part in (self.query, self.content_query, self.rotation)
        )
        key, content_key = (None if part is None else part[:, :num_keys] for part in (self.key, self.content_key))
        segments = None if self.segments is None else self.segments[:, :num_keys]
        return Terms(
            length, first, query, key, relative, self.theta, self.segment, segments, rotation, content_query,
            content_key, distances,
        )  # fmt: skip

    def split(self, num_layers: int) -> list[Terms]:
        """Split terms of `L H` heads into those of `L` layers."""
        by_heads = {}
        for name in ("query", "key", "relative", "segment", "content_query", "content_key"):
            part = getattr(self, name)
            if part is not None:
                by_heads[name] = part.unflatten(0, (num_layers, -1)).unbind()  # L H ... -> L of H ...
        if self.theta is not None:
            by_heads["theta"] = self.theta.unflatten(1, (num_layers, -1)).unbind(1)  # 2 L H -> L of 2 H
        return [
            self._replace(**{name: parts[layer] for name, parts in by_heads.items()}) for layer in range(num_layers)
        ]

    def expand(self, num_heads: int) -> Terms:
        """Return the parts of the bias with `num_heads` heads. A part of one head is the same for all of them."""
        parts = {name: getattr(self, name) for name in ("query", "key", "relative", "theta", "segment")}
        for name, part in parts.items():
            if part is not None:
                parts[name] = part.expand(2, num_heads) if name == "theta" else part.expand(num_heads, *part.shape[1:])
        return self._replace(**parts)


def toeplitz(values: Tensor, length: int) -> Tensor:
    """Lay `values` `(H, n + m - 1)` of the distances `-(n-1) .. m-1` on the diagonals of an `(H, n, m)` tensor.

    `out[h, i, j] = values[h, n-1 + j-i]`, and `n` is `length`.
    """
    return skew(F.pad(values, (1, 1)).unsqueeze(-2).expand(-1, length, -1))


def skew(by_distance: Tensor) -> Tensor:
    """Select keys `(..., n, m)` from distances `-n .. m`, `(..., n, n + m + 1)`: `out[i, j] = in[i, n + j - i]`."""
    length, width = by_distance.shape[-2:]
    # cell (i, n + j - i) is number i width + n + j - i = n + i (width - 1) + j of the row-major matrix
    return by_distance.flatten(-2)[..., length:].unflatten(-1, (length, width - 1))[..., : width - length - 1]
