"""Structured bias: the parts that a bias is the sum of, for kernels that never build the `H x T_q x T_k` tensor."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from tupe.position.length import Span
from tupe.position.precision import at_least_float32, no_autocast
from tupe.position.relative import toeplitz
from tupe.position.reset import reset_cls
from tupe.position.segment import segment_bias


class StructuredBias(NamedTuple):
    r"""Parts of `bias_ij = reset(query_i . key_j + relative[j - i + T_q - 1]) + segment[s_i, s_j]`; each may be `None`.

    The parts and their gradients take memory linear in the lengths.

    Attributes:
        query: `(H, T_q, d_p)`, scaled (TUPE: `LN(p) U^Q / sqrt(2 d_h)`; DIET-ABS: `P_Q`).
        key: `(H, T_k, d_p)`.
        relative: `(H, T_q + T_k - 1)`, one value for each distance `j - i` from `1 - T_q` to `T_k - 1`.
        theta: `(2, H)`, `theta_1` for row 0 and `theta_2` for the rest of column 0; `None` for no reset. The
            gradient of `theta_1` is zero: it is constant over a row of the softmax.
        segment: `(H, 2, 2)`, DIET's `E_S`.
        segments: `s`, `(B, T)`, bool, true in segment 1; only where queries and keys are the same positions.
    """

    query: Tensor | None = None
    key: Tensor | None = None
    relative: Tensor | None = None
    theta: Tensor | None = None
    segment: Tensor | None = None
    segments: Tensor | None = None

    def contiguous(self) -> StructuredBias:
        """Return the bias with contiguous parts, which the kernels need."""
        return StructuredBias(*(part if part is None else part.contiguous() for part in self))

    def to(self, dtype: torch.dtype) -> StructuredBias:
        """Return the bias with its learnt parts rounded to `dtype`, contiguous.

        `relative`, which takes little memory, stays in float32 or better: far distances have large values. At 8192
        positions bfloat16 would round these to steps of 1/8, errors up to 1/16 (ALiBi's least slope of eight heads).
        """
        rounded = {"query", "key", "theta", "segment"}
        parts = {name: part.to(dtype) for name, part in self._asdict().items() if name in rounded and part is not None}
        relative = self.relative
        if relative is not None:
            relative = relative.to(torch.promote_types(dtype, torch.float32))
        return self._replace(**parts, relative=relative).contiguous()

    def slice(self, length: int, num_keys: int | None = None, query_offset: int = 0) -> StructuredBias:
        """Return the bias of some queries and keys; see `PositionBias.forward`. This one has as many queries as keys.

        `theta` stays as it is: give `dense` the same `query_offset`.
        """
        span = Span.of(length, num_keys, query_offset)
        query, key, relative, theta, segment, segments = self
        if relative is not None:
            middle = relative.shape[-1] // 2 - query_offset  # the distance of the first query to the first key
            relative = relative[:, middle - (length - 1) : middle + span.num_keys]
        query = None if query is None else query[:, span.queries]
        key, segments = (part if part is None else part[:, span.keys] for part in (key, segments))
        return StructuredBias(query, key, relative, theta, segment, segments).contiguous()

    def split(self, num_layers: int) -> list[StructuredBias]:
        """Split a bias of `L H` heads into one of `H` heads for each of `L` layers; all have the same `segments`."""
        of_heads = [self.query, self.key, self.relative, None if self.theta is None else self.theta.t(), self.segment]
        layers = zip(*([None] * num_layers if p is None else p.unflatten(0, (num_layers, -1)) for p in of_heads))
        return [
            StructuredBias(query, key, relative, None if theta is None else theta.t(), segment, self.segments)
            for query, key, relative, theta, segment in layers
        ]

    def expand(self, num_heads: int) -> StructuredBias:
        """Return the bias with `num_heads` heads: a part with one head is the same for all of them."""
        parts = {name: part for name, part in self._asdict().items() if name != "segments" and part is not None}
        for name, part in parts.items():
            parts[name] = part.expand(2, num_heads) if name == "theta" else part.expand(num_heads, *part.shape[1:])
        return self._replace(**parts)

    def dense(self, key_length: int, query_offset: int = 0) -> Tensor:
        """Return the bias as one tensor in float32 or better, `(H, T_q, key_length)`, with segments `(B, H, ...)`.

        The reset needs `query_offset`, the position of the first row.
        """
        parts = []
        if self.query is not None and self.key is not None:
            with no_autocast(self.query.device):
                parts.append(at_least_float32(self.query) @ at_least_float32(self.key).transpose(1, 2))
        if self.relative is not None:
            parts.append(toeplitz(at_least_float32(self.relative), key_length))
        if self.theta is not None:
            parts = [reset_cls(sum(parts[1:], parts[0]), self.theta, query_offset)]
        if self.segment is not None and self.segments is not None:
            parts.append(segment_bias(at_least_float32(self.segment), self.segments))
        return sum(parts[1:], parts[0])
