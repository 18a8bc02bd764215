r"""DeBERTa's disentangled attention: products of content and distances (He et al. 2021, eq. 3 and 4).

    logit(i, j) = (q_i . k_j + q_i . K[delta(i, j)] + k_j . Q[delta(i, j)]) / sqrt(3 d_h),   K = P W^K,   Q = P W^Q

`q_i . K` is "content to position" (c2p), `k_j . Q` "position to content" (p2c). `delta(i, j)` is the row of `i - j` in
the table `P`. The paper prints `delta(j, i)` in p2c. The authors' code and Transformers' have `delta(i, j)`.

All layers share `P`: `PositionBias` computes its row of each distance once per batch, and the layers project the
rows. Both terms depend on the content. As with Shaw's vectors (`tupe.position.shaw`), each is a product with the
`2n + 1` distances, and its `n x n` part is a view. Cost: the multiplications of four more `q k^T`, and two tensors of
twice the size of the attention weights.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from tupe.position.absolute import INIT_STD
from tupe.position.relative import bucket_boundaries
from tupe.position.terms import skew


class RelativeEmbeddings(nn.Module):
    """Table `P: 2k x d` of distance vectors, shared by all layers.

    Distances are clipped at `k = max_distance`. If `num_buckets` is not 0, they fall into `k = num_buckets` buckets per
    side instead: near distances have one each, and farther buckets grow logarithmically up to `max_distance`.
    """

    def __init__(
        self, embed_dim: int, max_distance: int = 512, num_buckets: int = 256, layer_norm_eps: float = 1e-5
    ) -> None:
        super().__init__()
        fits = num_buckets % 2 == 0 and max_distance >= num_buckets // 2 + 2
        assert not num_buckets or fits, f"num_buckets={num_buckets} is odd or too large for max_distance={max_distance}"
        self.rows_per_side = num_buckets or max_distance
        self.table = nn.Embedding(2 * self.rows_per_side, embed_dim)
        nn.init.normal_(self.table.weight, std=INIT_STD)
        self.layer_norm = nn.LayerNorm(embed_dim, layer_norm_eps)
        half, far = num_buckets // 2, max_distance - 1
        self.boundaries = bucket_boundaries(half, half - 1, far, beyond=True) if num_buckets else []

    def row(self, distance: Tensor) -> Tensor:
        """Return the table's row for each `distance = j - i`, in the same shape: rows increase with `i - j`."""
        away = distance.neg()
        if self.boundaries:
            boundaries = torch.tensor(self.boundaries, device=away.device)
            away = away.sign() * torch.bucketize(away.abs(), boundaries, right=True)
        return (away + self.rows_per_side).clamp(0, 2 * self.rows_per_side - 1)

    def forward(self, distance: Tensor) -> Tensor:
        """Return the vectors of distances `(D,)`, `(D, d)`."""
        return self.layer_norm(self.table(self.row(distance)))


class DisentangledRelative(nn.Module):
    """Terms c2p and p2c of one layer. No parameters: the content's `W^Q` and `W^K` project the distances too."""

    value = None  # unlike Shaw's term, this adds no vectors to the values

    def forward(
        self, query: Tensor, key: Tensor, scale: float, embeddings: Tensor, project: Callable[[Tensor, slice], Tensor]
    ) -> Tensor:
        """Compute c2p + p2c, `(B, H, n, n)`.

        Args:
            query, key: `(B, H, n, d_h)`.
            scale: factor of both terms.
            embeddings: output of `RelativeEmbeddings` for the distances `-n .. n`, `(2n + 1, d)`.
            project: maps `x` and a slice of columns to these columns of `x (W^Q, W^K)`.
        """
        width = embeddings.shape[-1]

        def in_heads(vectors: Tensor) -> Tensor:
            return scale * vectors.unflatten(-1, (query.shape[1], -1)).transpose(0, 1)  # 2n+1 d -> H 2n+1 d_h

        of_keys = in_heads(project(embeddings, slice(width, 2 * width)))
        # row i of `key @ ...` is key i, and its distances have the opposite sign, so the vectors are flipped
        of_queries = in_heads(project(embeddings, slice(width)).flip(0))
        return skew(query @ of_keys.mT) + skew(key @ of_queries.mT).mT
