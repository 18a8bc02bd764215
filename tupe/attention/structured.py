"""A bias as the parts that it is the sum of, for kernels that never build the `H x T_q x T_k` tensor."""

from __future__ import annotations

from typing import NamedTuple, Optional

import torch
from torch import Tensor

from tupe.errors import UserError
from tupe.position.precision import at_least_float32


class StructuredBias(NamedTuple):
    r"""`bias_ij = reset(query_i . key_j + relative[j - i + T_q - 1])`, each part present or `None`.

    Its memory is linear in the lengths, and so is the memory of its gradients, which go straight to the parts.

    query: `(H, T_q, d_p)`, scaled (TUPE: `LN(p) U^Q / sqrt(2 d_h)`; DIET-ABS: `P_Q`).
    key: `(H, T_k, d_p)`.
    relative: `(H, T_q + T_k - 1)`, one value for each distance `j - i` from `1 - T_q` to `T_k - 1`.
    theta: `(2, H)`, `theta_1` for row 0 and `theta_2` for the rest of column 0; `None` for no reset. The gradient of
        `theta_1` is zero: it is constant over a row of the softmax.
    """

    query: Optional[Tensor] = None
    key: Optional[Tensor] = None
    relative: Optional[Tensor] = None
    theta: Optional[Tensor] = None

    def to(self, dtype: torch.dtype) -> StructuredBias:
        return StructuredBias(*(None if part is None else part.to(dtype) for part in self))

    def slice(self, length: int) -> StructuredBias:
        """The bias of the first `length` of its queries and keys, which must be equally many."""
        query, key, relative, theta = self
        if relative is not None:
            middle = relative.shape[-1] // 2
            relative = relative[:, middle - (length - 1) : middle + length]
        return StructuredBias(
            None if query is None else query[:, :length], None if key is None else key[:, :length], relative, theta
        )

    def check(self, num_heads: int, query_length: int, key_length: int) -> None:
        """Raises `UserError` if the parts do not make a bias of `(num_heads, query_length, key_length)`."""
        query, key, relative, theta = self
        if query is None and relative is None:
            raise UserError("a StructuredBias needs query and key, or relative, or all three")
        width = 0 if query is None else query.shape[-1]
        for name, part, shape in (
            ("query", query, (num_heads, query_length, width)),
            ("key", key, (num_heads, key_length, width)),
            ("relative", relative, (num_heads, query_length + key_length - 1)),
            ("theta", theta, (2, num_heads)),
        ):
            if part is not None and part.shape != shape:
                raise UserError(f"StructuredBias.{name} is {tuple(part.shape)}, but must be {shape}")
        if (query is None) != (key is None):
            raise UserError("a StructuredBias has query without key, or key without query: give both or neither")

    def dense(self, query_length: int, key_length: int) -> Tensor:
        """The bias as one tensor, `(H, query_length, key_length)`, at least float32."""
        bias = None
        if self.query is not None:
            bias = at_least_float32(self.query) @ at_least_float32(self.key).transpose(1, 2)
        if self.relative is not None:  # window w starts at distance w - (T_q - 1); query i reads window T_q - 1 - i
            toeplitz = at_least_float32(self.relative).unfold(-1, key_length, 1).flip(-2)
            bias = toeplitz if bias is None else bias + toeplitz
        if self.theta is not None:
            theta_1, theta_2 = self.theta.to(bias.dtype)[:, :, None, None]
            below = torch.cat([theta_2.expand(-1, query_length - 1, 1), bias[:, 1:, 1:]], dim=2)
            bias = torch.cat([theta_1.expand(-1, 1, key_length), below], dim=1)
        return bias
