"""What the encoding adds to the attention: one value for each layer, or for all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Optional, Union

import torch
from torch import Tensor

from tupe.position.length import Span
from tupe.position.segment import segment_bias
from tupe.position.structured import StructuredBias


class PositionTerms(NamedTuple):
    """What the encoding adds to the attention; `None` where it adds nothing. `m` keys: `n`, or Linformer's `k`.

    bias: added to the logits, `(H, n, m)`; `(B, H, n, n)` where segments make it the sequence's own; or its parts.
    query, key: added to the projected words before their product, `(H, n, d_h)` each (BERT-A^d).
    """

    bias: Union[Tensor, StructuredBias, None] = None
    query: Optional[Tensor] = None
    key: Optional[Tensor] = None

    def to(self, dtype: torch.dtype) -> PositionTerms:
        return PositionTerms(*(None if term is None else term.to(dtype) for term in self))

    def slice(self, length: int, num_keys: Optional[int] = None, query_offset: int = 0) -> PositionTerms:
        """The terms of some of its positions; see `PositionBias.forward`."""
        span = Span.of(length, num_keys, query_offset)
        bias, query, key = self
        if isinstance(bias, StructuredBias):
            bias = bias.slice(*span)
        elif bias is not None:
            bias = bias[:, span.queries, span.keys]
        return PositionTerms(
            bias, None if query is None else query[:, span.queries], None if key is None else key[:, span.keys]
        )

    def add_segments(self, values: Tensor, segments: Tensor, in_parts: bool = False) -> PositionTerms:
        """The terms with `values[h, s_i, s_j]` added to the bias, or among its parts.

        Args:
            values: `E_S`, `(H, 2, 2)`.
            segments: `s`, `(B, n)`, bool, true in segment 1; `(1, 1)` if that is the segment of all.
            in_parts: add a part, if the bias is in parts or nothing yet.
        """
        if in_parts and not isinstance(self.bias, Tensor):
            bias = StructuredBias() if self.bias is None else self.bias
            return self._replace(bias=bias._replace(segment=values, segments=segments))
        bias = segment_bias(values, segments)
        bias = bias[0] if bias.shape[0] == 1 else bias  # `len` would fix the number in a graph
        return self._replace(bias=bias if self.bias is None else self.bias + bias)

    def split(self, num_layers: int) -> list[PositionTerms]:
        """The terms of each layer, where every layer has its own: `(L H, ...)` to `L` times `(H, ...)`."""

        def of_layers(term: Union[Tensor, StructuredBias, None]) -> Sequence[Union[Tensor, StructuredBias, None]]:
            if term is None:
                return [None] * num_layers
            if isinstance(term, StructuredBias):
                return term.split(num_layers)
            return term.unflatten(0, (num_layers, -1)).unbind()

        return [PositionTerms(*layer) for layer in zip(*map(of_layers, self))]
