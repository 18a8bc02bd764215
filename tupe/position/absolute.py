"""Absolute positions: a table added to the embeddings (BERT), or an untied correlation (TUPE, section 3.1)."""

import torch
from torch import Tensor, nn

from tupe.layers import Linear
from tupe.position.length import check_length, fit_positions
from tupe.position.registry import register_absolute

INIT_STD = 0.02  # BERT's initialization, for every position parameter


def normal(*shape: int) -> nn.Parameter:
    """Return a parameter of this shape with BERT's initialization."""
    return nn.Parameter(nn.init.normal_(torch.empty(shape), std=INIT_STD))


class PositionTable(nn.Module):
    """Table `P: n x d`, one learned vector per position, which BERT-A and BERT-R add to the token embeddings.

    Loading a checkpoint slices a longer table. A shorter one raises an error.
    """

    def __init__(self, max_positions: int, embed_dim: int) -> None:
        super().__init__()
        self.weight = normal(max_positions, embed_dim)
        fit_positions(self, "weight", 0)

    def forward(self, length: int) -> Tensor:
        """Return the vectors of the first positions, `(length, d)`."""
        check_length(length, len(self.weight))
        return self.weight[:length]


@register_absolute("untied")
class UntiedAbsolute(nn.Module):
    r"""Correlation of positions, untied from the content (TUPE, eq. 7; the layer norm is in the text).

        absolute(i, j) = (LN(p_i) U^Q) (LN(p_j) U^K)^T / sqrt(num_terms * d_h)          per head, d_h = d / H

    `num_terms` is the number of products that the attention logit sums, 2 in TUPE: content and positions. Dividing by
    its square root gives the sum the variance of one product.

    Args:
        max_positions, embed_dim: the shape `n x d` of the table `P`.
        num_heads: `H`; each head has `d_h` columns of `U^Q` and of `U^K`.
        head_dim: `d_h`; `embed_dim / num_heads` if not given.
        num_terms: see above.
        projection_bias: biases on `U^Q, U^K`, as in the authors' release, not in the paper.
        layer_norm: whether to apply `LN`; without it (an ablation) the projections read `p` directly.
        layer_norm_eps: added to the variance by the layer norm.
    """

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
        self.head_axes = {"query.weight": 0, "query.bias": 0, "key.weight": 0, "key.bias": 0}
        assert head_dim or embed_dim % num_heads == 0, f"{num_heads} heads do not divide the width {embed_dim}"
        head_dim = head_dim or embed_dim // num_heads
        self.max_positions, self.num_heads = max_positions, num_heads
        self.scale = (num_terms * head_dim) ** -0.5
        self.table = PositionTable(max_positions, embed_dim)
        self.layer_norm = nn.LayerNorm(embed_dim, layer_norm_eps) if layer_norm else nn.Identity()
        self.query = Linear(embed_dim, num_heads * head_dim, bias=projection_bias)
        self.key = Linear(embed_dim, num_heads * head_dim, bias=projection_bias)
        for projection in (self.query, self.key):
            nn.init.normal_(projection.weight, std=INIT_STD)
            if projection.bias is not None:
                nn.init.zeros_(projection.bias)

    def forward(self, length: int, vectors: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Compute the factors of the first `length` positions, or of `vectors` `(length, d)` instead of the table's.

        Returns:
            The scaled queries and the keys, `(H, length, d_h)` each.
        """
        p = self.layer_norm(self.table(length) if vectors is None else vectors)
        return self.scale * self.in_heads(self.query(p)), self.in_heads(self.key(p))

    def in_heads(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.num_heads, -1)).transpose(0, 1)  # n H*d_h -> H n d_h
