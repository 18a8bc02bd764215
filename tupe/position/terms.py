"""Position terms of the attention: parts whose size is linear in the length, and the bias that is their sum."""

from __future__ import annotations

from collections.abc import Container
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from tupe.position.precision import no_autocast
from tupe.position.reset import reset_cls
from tupe.position.segment import segment_bias

#: Parts with heads: on axis 1 in `theta`, on axis 0 in the others.
HEADS = ("query", "key", "relative", "theta", "segment", "phase", "content_query", "content_key")


class Terms(NamedTuple):
    r"""Parts of the attention logit of `n` queries and `m` keys. An absent part is `None`.

        logit_ij = scale (R_i q_i + content_query_i) . (R_j k_j + content_key_j) + bias_ij
        bias_ij  = reset(query_i . key_j + relative[j - i]) + segment[s_i, s_j]

    Attributes:
        length: `n`, the number of queries.
        first: position of the first query.
        query: `(H, n, r)`, scaled.
        key: `(H, m, r)`.
        relative: `(H, n + m - 1)`, one value per distance `j - i`; the first is of the last query and key 0.
        theta: `(2, H)`, `theta_1` for row 0 and `theta_2` for the rest of column 0; see `reset_cls`.
        segment: `(H, 2, 2)`, DIET's `E_S`.
        segments: `s`, `(B, n)`, bool, true in segment 1; for the dense `bias` also `(1, 1)`, one for all tokens.
        rotation: `(2, n, r)`, the rotation `R` of queries and keys; see `rotate`.
        phase: `(H, 2 d_h)`, turns the keys before their rotation (PoPE); see `polar`.
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
    phase: Tensor | None = None
    content_query: Tensor | None = None
    content_key: Tensor | None = None
    distances: Tensor | None = None

    @property
    def bias(self) -> Tensor | None:
        """The bias `(H, n, m)`, with segments `(B, H, n, n)`; `None` without parts. Computed at each access."""
        bias = None
        if self.query is not None and self.key is not None:
            with no_autocast(self.query.device):
                bias = self.query @ self.key.mT
        if self.relative is not None:
            values = toeplitz(self.relative, self.length)
            bias = values if bias is None else bias + values
        if self.theta is not None:
            bias = reset_cls(bias, self.theta, self.first)
        if self.segment is not None and self.segments is not None:
            values = segment_bias(self.segment, self.segments)  # B H n n
            values = values[0] if values.shape[0] == 1 else values  # not `len`, which would fix a graph's batch size
            bias = values if bias is None else bias + values
        return bias

    def rounded(self, dtype: torch.dtype) -> Terms:
        """Return only the parts that combine with the content, in `dtype`; angles need 32 bits and keep their type."""
        content = self.present(("content_query", "content_key", "distances"))
        return Terms(rotation=self.rotation, phase=self.phase, **{name: part.to(dtype) for name, part in content})

    def slice(self, length: int, num_keys: int | None = None, first: int = 0) -> Terms:
        """Return the terms of the queries `first .. first + length - 1` and the first `num_keys` keys.

        `self` must have `n = m`, except for Linformer's keys. By default the keys end at the last query.
        """
        end, n = first + length, self.length
        queries, keys = slice(first, end), slice(end if num_keys is None else num_keys)
        distances = slice(n - end, n - first + keys.stop - 1)  # the first is from the last query to key 0
        columns = {
            **dict.fromkeys(("query", "content_query", "rotation"), queries),
            **dict.fromkeys(("key", "content_key", "segments"), keys),
            "relative": distances,
        }
        parts = {name: part[:, columns[name]] for name, part in self.present(columns)}
        if self.distances is not None:
            parts["distances"] = self.distances[n - end : n + end + 1]
        return self._replace(length=length, first=first, **parts)

    def split(self, num_layers: int) -> list[Terms]:
        """Split terms of `L H` heads into the terms of `L` layers with `H` heads each."""
        layers = [{} for _ in range(num_layers)]
        for name, part in self.present(HEADS):
            axis = int(name == "theta")
            for own, values in zip(layers, part.unflatten(axis, (num_layers, -1)).unbind(axis)):  # L H -> L of H
                own[name] = values
        return [self._replace(**own) for own in layers]

    def expand(self, num_heads: int) -> Terms:
        """Return the parts with `num_heads` heads. A part of one head is the same for all of them."""
        wide = {}
        for name, part in self.present(HEADS):
            shape = list(part.shape)
            shape[name == "theta"] = num_heads
            wide[name] = part.expand(shape)
        return self._replace(**wide)

    def present(self, names: Container[str]) -> list[tuple[str, Tensor]]:
        """Return the names and the values of those parts among `names` that are not `None`."""
        return [(name, part) for name, part in zip(self._fields, self) if name in names and part is not None]


def toeplitz(values: Tensor, length: int) -> Tensor:
    """Lay `values` `(H, n + m - 1)` of the distances `-(n-1) .. m-1` on the diagonals of an `(H, n, m)` tensor.

    `out[h, i, j] = values[h, n-1 + j-i]`, where `n` is `length`.
    """
    return skew(F.pad(values, (1, 1)).unsqueeze(-2).expand(-1, length, -1))


def skew(by_distance: Tensor) -> Tensor:
    """Select keys `(..., n, m)` from distances `-n .. m`, `(..., n, n + m + 1)`: `out[i, j] = in[i, n + j - i]`."""
    length, width = by_distance.shape[-2:]
    # cell (i, n + j - i) is number i width + n + j - i = n + i (width - 1) + j of the row-major matrix
    return by_distance.flatten(-2)[..., length:].unflatten(-1, (length, width - 1))[..., : width - length - 1]
