"""Absolute positions: a table added to the words (BERT), or an untied correlation (TUPE, section 3.1)."""

import math
from typing import ClassVar

import torch
from torch import Tensor, nn

from tupe.layers import Linear
from tupe.position.length import Span, check_length, fit_positions
from tupe.position.precision import in_float32, no_autocast

INIT_STD = 0.02  # BERT's initialisation, for every position parameter


class PositionTable(nn.Module):
    """Table `P: n x d`, one learnt vector a position, which BERT-A and BERT-R add to the word embeddings.

    A checkpoint with a longer table is sliced on loading; one with a shorter table is refused.

    Args:
        max_positions: number of positions `n`.
        embed_dim: width `d`.
    """

    def __init__(self, max_positions: int, embed_dim: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(max_positions, embed_dim))
        nn.init.normal_(self.weight, std=INIT_STD)
        fit_positions(self, "weight", 0)

    def forward(self, length: int) -> Tensor:
        """Return the vectors of the first `length` positions, `(length, d)`."""
        check_length(length, len(self.weight))
        return self.weight[:length]


class UntiedAbsolute(nn.Module):
    r"""Correlation of positions, untied from the words (TUPE, eq. 7; `LN` as in the authors' release).

        absolute(i, j) = (LN(p_i) U^Q) (LN(p_j) U^K)^T / sqrt(num_terms * d_h)          per head, d_h = d / H

    `num_terms` is the number of products that the attention logit sums, 2 in TUPE: words and positions. Dividing by its
    root gives the sum the variance of one product.

    Args:
        max_positions: rows of the table `P`.
        embed_dim: width `d` of the table and of both projections.
        num_heads: `H`; each head has `d_h` columns of `U^Q` and of `U^K`.
        head_dim: `d_h`; `embed_dim / num_heads` if not given.
        num_terms: see above.
        projection_bias: biases on `U^Q, U^K`, as in the authors' release; the paper has none.
        layer_norm: whether there is an `LN`; without it (an ablation) the projections take `p` itself.
        layer_norm_eps: what the layer norm adds to the variance.
    """

    head_axes: ClassVar[dict[str, int]] = {f"{side}.{of}": 0 for side in ("query", "key") for of in ("weight", "bias")}

    def __init__(
        self,
        max_positions: int,
        embed_dim: int,
        num_heads: int,
        head_dim: int | None = None,
        *,
        num_terms: int = 2,
        projection_bias: bool = False,
        layer_norm: bool = True,
        layer_norm_eps: float = 1e-5,
    ) -> None:
        super().__init__()
        assert head_dim or embed_dim % num_heads == 0, f"{num_heads} heads do not divide the width {embed_dim}"
        head_dim = head_dim or embed_dim // num_heads
        self.max_positions = max_positions
        self.num_heads = num_heads
        self.width = head_dim
        self.scale = 1 / math.sqrt(num_terms * head_dim)
        self.table = PositionTable(max_positions, embed_dim)
        self.layer_norm = nn.LayerNorm(embed_dim, layer_norm_eps) if layer_norm else nn.Identity()
        self.query = Linear(embed_dim, num_heads * head_dim, bias=projection_bias)
        self.key = Linear(embed_dim, num_heads * head_dim, bias=projection_bias)
        for projection in (self.query, self.key):
            nn.init.normal_(projection.weight, std=INIT_STD)
            if projection.bias is not None:
                nn.init.zeros_(projection.bias)

    def project(
        self, vectors: Tensor, queries: slice = slice(None), keys: slice = slice(None)
    ) -> tuple[Tensor, Tensor]:
        """Compute `LN(p) U^Q` of the rows `queries` and `LN(p) U^K` of the rows `keys` of `vectors` `(m, d)`.

        Both are unscaled, `(H, rows, d_h)`.
        """
        p = in_float32(self.layer_norm, vectors)
        query, key = in_float32(self.query, p[queries]), in_float32(self.key, p[keys])  # (m, d) -> (m, H d_h)
        return self._heads(query), self._heads(key)

    def _heads(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.num_heads, -1)).transpose(0, 1)  # (m, H d_h) -> (H, m, d_h)

    def factors(self, span: Span) -> tuple[Tensor, Tensor]:
        """Compute the unscaled factors of `span`: queries `(H, length, d_h)` and keys `(H, num_keys, d_h)`."""
        return self.project(self.table(span.end), span.queries, span.keys)

    def forward(
        self,
        length: int,
        num_keys: int | None = None,
        query_offset: int = 0,
        factors: bool = False,
        vectors: Tensor | None = None,
    ) -> Tensor | tuple[Tensor, Tensor]:
        """Compute `absolute(i, j)` for a block of positions; see `PositionBias.forward`.

        Returns:
            `(H, length, num_keys)`. With `factors` the two unscaled factors, `(H, length, d_h)` and
            `(H, num_keys, d_h)`. With `vectors` `(length, d)` the correlation of each vector with itself,
            `(length, H)`: the reset computes theta so, because only `forward` gathers the weights of a sharded module.
        """
        if vectors is not None:
            query, key = self.project(vectors)
            return self.scale * (query * key).sum(-1).t()
        query, key = self.factors(Span.of(length, num_keys, query_offset))
        if factors:
            return query, key
        with no_autocast(query.device):
            return (query * self.scale) @ key.transpose(1, 2)
