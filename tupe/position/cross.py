"""Untied positions between two sequences, such as a target and its source, with a table for each."""

from copy import deepcopy
from typing import Any

from torch import Tensor

from tupe.position.absolute import PositionTable, UntiedAbsolute
from tupe.position.length import Span
from tupe.position.precision import in_float32


class UntiedTwoSided(UntiedAbsolute):
    r"""Correlation of the positions of the queries with those of another sequence, the keys.

        absolute(i, j) = (LN(p_i) U^Q) (LN'(p'_j) U^K)^T / sqrt(num_terms * d_h)

    Args:
        max_positions: rows of the table `P` of the queries.
        num_keys: rows of the table `P'` of the keys.
        embed_dim: width `d` of both.
        others, named: the further arguments of `UntiedAbsolute`.
    """

    def __init__(self, max_positions: int, num_keys: int, embed_dim: int, *others: Any, **named: Any) -> None:
        super().__init__(max_positions, embed_dim, *others, **named)
        self.num_keys = num_keys
        self.key_table = PositionTable(num_keys, embed_dim)
        self.key_layer_norm = deepcopy(self.layer_norm)

    def factors(self, span: Span) -> tuple[Tensor, Tensor]:
        """Compute the unscaled factors: queries of `span`, `(H, length, d_h)`, and all keys, `(H, num_keys, d_h)`."""
        query = in_float32(self.query, in_float32(self.layer_norm, self.table(span.queries.stop)[span.queries]))
        key = in_float32(self.key, in_float32(self.key_layer_norm, self.key_table.weight))
        return self._heads(query), self._heads(key)
