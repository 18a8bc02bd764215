"""What a term is, and what their sum adds to the attention: one value for each layer, or for all."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from tupe.position.length import Span
from tupe.position.segment import segment_bias
from tupe.position.structured import StructuredBias


class Term(Protocol):
    """Protocol of the absolute and relative terms of `PositionBias`, tested by `tupe.position.check_term`.

    A module whose output is a function of its parameters and buffers and of positions: no random numbers, no state, in
    training as in evaluation. Naming this class among the bases, `class Mine(nn.Module, Term)`, promises it: the terms
    are then kept from one evaluation to the next. What a term may have beyond `forward`:

    max_positions: the longest input that it has; without the attribute there is no end.
    width, scale, and `forward(..., factors=True)`: make an absolute term structured, of memory linear in the length,
        where it is a product `scale query_i . key_j`: that returns `(H, length, width)` and `(H, num_keys, width)`,
        unscaled. Structured relative terms derive from `RelativeTerm`, which makes all of `by_distance`.

    A parameter with a row for each position says so by `tupe.position.fit_positions`: it is then cut when a
    shorter model loads it, and made longer by `tupe extend-positions`.
    """

    __call__: Callable[..., Any]  # of `nn.Module`, which calls `forward`

    def forward(
        self, length: int, num_keys: int | None = None, query_offset: int = 0
    ) -> Tensor | tuple[Tensor, Tensor]:
        """Compute the values of `length` queries, from position `query_offset` on, and the keys of the first positions.

        Args:
            length: number of queries, at least 1; an integer, or a symbol of one where the term is exported.
            num_keys: by default `query_offset + length`: the positions up to the last query.
            query_offset: position of the first query.

        Returns:
            `(H, length, num_keys)`, one value for each head, in float32 or better (`at_least_float32`).
        """
        ...


class FactoredTerm(Term, Protocol):
    """Protocol of an absolute term that is a product of factors, as `Term` describes them."""

    width: int
    scale: float


class PositionTerms(NamedTuple):
    """What the encoding adds to the attention; `None` where it adds nothing. `m` keys: `n`, or Linformer's `k`.

    bias: added to the logits, `(H, n, m)`; `(B, H, n, n)` where segments make it the sequence's own; or its parts.
    query, key: added to the projected words before their product, `(H, n, d_h)` each (BERT-A^d).
    rotation: turns the projected words before that (`tupe.position.rotate`), `(2, n, r)`, of the positions of queries.
    temperature: what queries are multiplied by after that, `(B, 1, 1, 1)`.
    """

    bias: Tensor | StructuredBias | None = None
    query: Tensor | None = None
    key: Tensor | None = None
    rotation: Tensor | None = None
    temperature: Tensor | None = None

    def to(self, dtype: torch.dtype) -> PositionTerms:
        """Round every term to `dtype`, but for the rotation, of which 16 bits would leave other angles."""
        bias, query, key = (None if term is None else term.to(dtype) for term in (self.bias, self.query, self.key))
        return self._replace(bias=bias, query=query, key=key)

    def slice(self, length: int, num_keys: int | None = None, query_offset: int = 0) -> PositionTerms:
        """The terms of some of its positions; see `PositionBias.forward`."""
        span = Span.of(length, num_keys, query_offset)
        bias, query, key, rotation, _ = self
        if isinstance(bias, StructuredBias):
            bias = bias.slice(*span.arguments)
        elif bias is not None:
            bias = bias[:, span.queries, span.keys]
        query, rotation = (None if part is None else part[:, span.queries] for part in (query, rotation))
        key = None if key is None else key[:, span.keys]
        return self._replace(bias=bias, query=query, key=key, rotation=rotation)

    def within(self, reach: int, zeros: Tensor) -> PositionTerms:
        """The terms with a bias of minus infinity at distances above `reach`, but for the row and column of `[CLS]`.

        The bias is not structured; `zeros` `(H, n, n)` is one that adds nothing.
        """
        bias = zeros if self.bias is None else self.bias
        assert isinstance(bias, Tensor)
        place = torch.arange(bias.shape[-1], device=bias.device)
        word = place > 0
        far = ((place - place.unsqueeze(1)).abs() > reach) & word & word.unsqueeze(1)
        return self._replace(bias=bias.masked_fill(far, -math.inf))

    def add_segments(self, values: Tensor, segments: Tensor, structured: bool = False) -> PositionTerms:
        """The terms with `values[h, s_i, s_j]` added to the bias, or among its parts.

        Args:
            values: `E_S`, `(H, 2, 2)`.
            segments: `s`, `(B, n)`, bool, true in segment 1; `(1, 1)` if that is the segment of all.
            structured: add to the parts, if the bias is a `StructuredBias` or nothing yet.
        """
        if structured and not isinstance(self.bias, Tensor):
            bias = StructuredBias() if self.bias is None else self.bias
            return self._replace(bias=bias._replace(segment=values, segments=segments))
        bias = segment_bias(values, segments)
        bias = bias[0] if bias.shape[0] == 1 else bias  # `len` would fix the number in a graph
        before = self.bias.dense(bias.shape[-1]) if isinstance(self.bias, StructuredBias) else self.bias
        return self._replace(bias=bias if before is None else before + bias)

    def split(self, num_layers: int) -> list[PositionTerms]:
        """The terms of each layer, where every layer has its own: `(L H, ...)` to `L` times `(H, ...)`."""

        def of_layers(term: Tensor | StructuredBias | None) -> Sequence[Tensor | StructuredBias | None]:
            if term is None:
                return [None] * num_layers
            if isinstance(term, StructuredBias):
                return term.split(num_layers)
            return term.unflatten(0, (num_layers, -1)).unbind()

        each = zip(of_layers(self.bias), of_layers(self.query), of_layers(self.key))
        return [self._replace(bias=bias, query=query, key=key) for bias, query, key in each]  # pyright: ignore[reportArgumentType]
