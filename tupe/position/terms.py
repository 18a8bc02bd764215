"""`Term`, the protocol of a position term, and `PositionTerms`, what the sum of terms adds to the attention."""

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
    """Protocol of the absolute and relative terms of `PositionBias`.

    A module whose output is a function of its parameters, its buffers and the positions: no random numbers, no state,
    in training as in evaluation. A class with this base, `class Mine(nn.Module, Term)`, promises that, and evaluation
    then caches its values. Optional beside `forward`:

    Attributes:
        max_positions: the longest input; without the attribute, inputs may have any length.
        num_heads: `H`, which `PositionBias` compares with that of the other terms.
        width, scale: of an absolute term that is a product `scale query_i . key_j`. The call
            `forward(..., factors=True)` returns the unscaled factors, `(H, length, width)` and `(H, num_keys, width)`.
            They make the bias structured, with memory linear in the length. A relative term derives from
            `RelativeTerm` for that, and overrides `by_distance`.

    Call `tupe.position.fit_positions` for a parameter with a row for each position: loading into a shorter model then
    slices it, and `tupe convert positions` lengthens it.
    """

    __call__: Callable[..., Any]  # of `nn.Module`, which calls `forward`

    def forward(
        self, length: int, num_keys: int | None = None, query_offset: int = 0
    ) -> Tensor | tuple[Tensor, Tensor]:
        """Compute `(H, length, num_keys)` in float32 or better (`at_least_float32`); see `PositionBias.forward`.

        `length` is symbolic in `torch.export`.
        """
        ...


class PositionTerms(NamedTuple):
    """What the position encoding adds to the attention, for `n` queries and `m` keys; an absent part is `None`.

    Attributes:
        bias: `(H, n, m)`, added to the logits; `(B, H, n, n)` where segments differ by sequence; or a `StructuredBias`.
        query, key: `(H, n, d_h)` and `(H, m, d_h)`, added to the projected words before their product (BERT-A^d).
        rotation: `(2, n, r)`, turns the projected words before `query` and `key` are added (`tupe.position.rotate`).
        embeddings: `(2n + 1, d)`, vectors of the distances `-n .. n`, which `DisentangledRelative` projects.
    """

    bias: Tensor | StructuredBias | None = None
    query: Tensor | None = None
    key: Tensor | None = None
    rotation: Tensor | None = None
    embeddings: Tensor | None = None

    def to(self, dtype: torch.dtype) -> PositionTerms:
        """Round every part to `dtype` except the rotation: 16 bits would change the angles."""
        parts = {name: getattr(self, name) for name in ("bias", "query", "key", "embeddings")}
        return self._replace(**{name: part.to(dtype) for name, part in parts.items() if part is not None})

    def slice(self, length: int, num_keys: int | None = None, query_offset: int = 0) -> PositionTerms:
        """Return the terms of a block of positions; see `PositionBias.forward`."""
        span = Span.of(length, num_keys, query_offset)
        bias, query, key, rotation, embeddings = self
        if isinstance(bias, StructuredBias):
            bias = bias.slice(*span.arguments)
        elif bias is not None:
            bias = bias[:, span.queries, span.keys]
        query, rotation = (None if part is None else part[:, span.queries] for part in (query, rotation))
        key = None if key is None else key[:, span.keys]
        if embeddings is not None:
            middle = len(embeddings) // 2
            embeddings = embeddings[middle - span.end : middle + span.end + 1]
        return self._replace(bias=bias, query=query, key=key, rotation=rotation, embeddings=embeddings)

    def within(self, reach: int, zeros: Tensor) -> PositionTerms:
        """Return the terms with a bias of -inf at distances above `reach`, except in the row and column of `[CLS]`.

        The bias must be a tensor or `None`; `zeros` `(H, n, n)` takes the place of `None`.
        """
        bias = zeros if self.bias is None else self.bias
        assert isinstance(bias, Tensor)
        place = torch.arange(bias.shape[-1], device=bias.device)
        word = place > 0
        far = ((place - place.unsqueeze(1)).abs() > reach) & word & word.unsqueeze(1)
        return self._replace(bias=bias.masked_fill(far, -math.inf))

    def add_segments(self, values: Tensor, segments: Tensor, structured: bool = False) -> PositionTerms:
        """Return the terms with `values[h, s_i, s_j]` added to the bias.

        Args:
            values: `E_S`, `(H, 2, 2)`.
            segments: `s`, `(B, n)`, bool, true in segment 1; `(1, 1)` if all tokens are in one segment.
            structured: return a `StructuredBias`, unless the bias is a tensor already.
        """
        if structured and not isinstance(self.bias, Tensor):
            bias = StructuredBias() if self.bias is None else self.bias
            return self._replace(bias=bias._replace(segment=values, segments=segments))
        bias = segment_bias(values, segments)
        bias = bias[0] if bias.shape[0] == 1 else bias  # `len` would fix the batch size in a graph
        before = self.bias.dense(bias.shape[-1]) if isinstance(self.bias, StructuredBias) else self.bias
        return self._replace(bias=bias if before is None else before + bias)

    def split(self, num_layers: int) -> list[PositionTerms]:
        """Split terms of `L H` heads into those of `L` layers: `(L H, ...)` to `L` times `(H, ...)`."""

        def of_layers(term: Tensor | StructuredBias | None) -> Sequence[Tensor | StructuredBias | None]:
            if term is None:
                return [None] * num_layers
            if isinstance(term, StructuredBias):
                return term.split(num_layers)
            return term.unflatten(0, (num_layers, -1)).unbind()

        each = zip(of_layers(self.bias), of_layers(self.query), of_layers(self.key))
        return [self._replace(bias=bias, query=query, key=key) for bias, query, key in each]  # pyright: ignore[reportArgumentType]
