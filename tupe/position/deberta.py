r"""DeBERTa's disentangled attention: words and distances, each asking the other (He et al. 2021, eq. 3 and 4).

    logit(i, j) = (q_i . k_j + q_i . K[delta(i, j)] + k_j . Q[delta(i, j)]) / sqrt(3 d_h),   K = P W^K,   Q = P W^Q

`q_i . K` is "content to position" (c2p), `k_j . Q` "position to content" (p2c). `delta(i, j)` is the row of `i - j` in
the table `P`. The paper has `delta(j, i)` in p2c. The authors' code and Transformers' have `delta(i, j)`, which is
another model, since both terms read one table.

`P` is one for all layers: `PositionBias` computes its row of each distance once a batch, and the layers project the
rows. Both terms depend on the words. As with Shaw's vectors (`tupe.position.shaw`), each is a product with the
`2n + 1` distances, and its `n x n` part is a view. Cost: the multiplications of four more `q k^T`, and two tensors of
twice the size of the attention weights.
"""

from bisect import bisect_right
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from tupe.errors import UserError
from tupe.layers import Linear
from tupe.position.absolute import INIT_STD
from tupe.position.arguments import check_types, check_whole
from tupe.position.length import check_epsilon
from tupe.position.precision import at_least_float32, in_float32
from tupe.position.relative import check_max_distance, skew
from tupe.systems import CHOICES


def log_bucket_boundaries(num_buckets: int, max_distance: int) -> list[int]:
    """Return the smallest distance of each of DeBERTa's buckets `1 .. B`, by integers, so that no rounding moves one.

    With `m = B / 2`, distances up to `m` have a bucket each. Bucket `m + c` starts at the smallest `D` with
    `log(D / m) / log((M - 1) / m) > (c - 1) / (m - 1)`, which is `D^(m - 1) m^(c - 1) > (M - 1)^(c - 1) m^(m - 1)`.
    """
    exact = num_buckets // 2
    boundaries = list(range(1, exact + 1))
    for c in range(1, num_buckets - exact + 1):
        steps, bound = exact - 1, (max_distance - 1) ** (c - 1) * exact ** (exact - 1)
        far = range(max_distance)
        boundaries.append(bisect_right(far, bound, boundaries[-1], key=lambda d: d**steps * exact ** (c - 1)))
    return boundaries


class RelativeEmbeddings(nn.Module):
    """Table `P: 2k x d` of the distances, one for all layers.

    Distances are clipped at `k = max_distance`, or with `num_buckets` they are in `k = num_buckets` buckets a side:
    near ones have a bucket each, and the others grow logarithmically up to `max_distance`.

    Args:
        embed_dim: `d`.
        max_distance: at least 1; with buckets at least `num_buckets / 2 + 2`.
        num_buckets: even, at least 4; 0 to clip.
        layer_norm: whether the table goes through a layer norm, as in the second and third version of DeBERTa.
        layer_norm_eps: what the layer norm adds to the variance.

    Raises:
        UserError: for other numbers.
    """

    boundaries: Tensor | None

    @check_types
    def __init__(
        self,
        embed_dim: int,
        max_distance: int = 512,
        num_buckets: int = 256,
        layer_norm: bool = True,
        layer_norm_eps: float = 1e-5,
    ) -> None:
        super().__init__()
        check_epsilon(layer_norm_eps)
        check_max_distance(self, max_distance)
        if num_buckets and (num_buckets % 2 or num_buckets < 4):
            raise UserError(
                f"num_buckets of {type(self).__name__} (a model's relative_buckets) is {num_buckets}, but half of "
                "DeBERTa's buckets are of one distance: use an even number from 4 on, or 0 to clip the distances"
            )
        if num_buckets and max_distance < num_buckets // 2 + 2:
            raise UserError(
                f"max_distance of {type(self).__name__} (a model's relative_max_distance) is {max_distance}, but with "
                f"{num_buckets} buckets a side it must be at least {num_buckets // 2 + 2}: set it higher, or "
                "num_buckets to 0 to clip the distances"
            )
        self.far = num_buckets or max_distance
        self.table = nn.Embedding(2 * self.far, embed_dim)
        nn.init.normal_(self.table.weight, std=INIT_STD)
        self.layer_norm = nn.LayerNorm(embed_dim, layer_norm_eps) if layer_norm else None
        boundaries = torch.tensor(log_bucket_boundaries(num_buckets, max_distance)) if num_buckets else None
        self.register_buffer("boundaries", boundaries, persistent=False)

    def row(self, distance: Tensor) -> Tensor:
        """Return the table's row for each `distance = j - i`, in the same shape: those of `i - j` rise."""
        away = distance.neg()
        if self.boundaries is not None:
            away = away.sign() * torch.bucketize(away.abs(), self.boundaries, right=True)
        return (away + self.far).clamp(0, 2 * self.far - 1)

    def forward(self, length: int) -> Tensor:
        """Return the vectors of the distances `-length .. length`, `(2 length + 1, d)`, in float32 or better."""
        check_whole("length", length)
        distances = torch.arange(-length, length + 1, device=self.table.weight.device)
        vectors = at_least_float32(self.table(self.row(distances)))
        return vectors if self.layer_norm is None else in_float32(self.layer_norm, vectors)


class DisentangledRelative(nn.Module):
    """Terms c2p and p2c of one layer.

    Args:
        embed_dim: `d`.
        terms: `c2p+p2c`, `c2p` or `p2c`.
        projections: `shared`, the words' `W^Q` and `W^K` with their biases, or `own`, matrices of this layer. Those of
            keys need no bias, which would add the same to all logits of a query.
        index: `code` or `paper`, see above.

    Raises:
        UserError: for another choice.
    """

    value = None  # unlike Shaw's, no vectors are added to the values

    @check_types
    def __init__(
        self, embed_dim: int, terms: str = "c2p+p2c", projections: str = "shared", index: str = "code"
    ) -> None:
        super().__init__()
        for name, choice in (("terms", terms), ("projections", projections), ("index", index)):
            if choice not in CHOICES[f"deberta_{name}"]:
                raise UserError(
                    f"{name} of {type(self).__name__} (a model's deberta_{name}) is {choice}, but must be one of "
                    f"{', '.join(CHOICES[f'deberta_{name}'])}"
                )
        self.terms, self.index = terms.split("+"), index
        own = projections == "own"
        self.key = Linear(embed_dim, embed_dim, bias=False) if own and "c2p" in self.terms else None
        self.query = Linear(embed_dim, embed_dim) if own and "p2c" in self.terms else None

    def forward(self, *arguments: Any) -> Tensor:
        """Compute the sum of the terms, `(B, H, n, n)`; the arguments are those of `products`."""
        first, *second = self.products(*arguments).values()
        return first + second[0] if second else first

    def products(
        self, query: Tensor, key: Tensor, embeddings: Tensor, scale: float, project: Callable[[Tensor, slice], Tensor]
    ) -> dict[str, Tensor]:
        """Compute each of the terms, `(B, H, n, n)`, by its name.

        Args:
            query, key: `(B, H, n, d_h)`.
            embeddings: output of `RelativeEmbeddings`, `(2n + 1, d)`.
            scale: factor of both terms.
            project: computes some columns of `x (W^Q, W^K)`, for shared projections.
        """
        width, found = embeddings.shape[-1], {}

        def in_heads(vectors: Tensor) -> Tensor:
            return scale * vectors.unflatten(-1, (query.shape[1], -1)).transpose(0, 1)  # 2n+1 d -> H 2n+1 d_h

        if "c2p" in self.terms:
            of_keys = project(embeddings, slice(width, 2 * width)) if self.key is None else self.key(embeddings)
            found["c2p"] = skew(query @ in_heads(of_keys).mT)
        if "p2c" in self.terms:
            of_queries = project(embeddings, slice(width)) if self.query is None else self.query(embeddings)
            # a row of this product is a key, and its distances are those from the key to the query
            of_queries = of_queries.flip(0) if self.index == "code" else of_queries
            found["p2c"] = skew(key @ in_heads(of_queries).mT).mT
        return found

    def extra_repr(self) -> str:
        return f"{'+'.join(self.terms)}, {self.index}"
