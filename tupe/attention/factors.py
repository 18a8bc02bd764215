r"""Replace a bias that is a product of factors by more columns of queries and keys (FlashBias).

    [q_i ; a_i / scale ; u_i] . [k_j ; b_j ; theta_2 v_j / scale] * scale = scale * q_i . k_j + reset(a_i . b_j)

Attention without a bias then computes the biased one. For the reset of `[CLS]`, `a_0 = b_0 = 0`; `u_i` is 1 except for
`u_0 = 0`, and `v_j` is 0 except for `v_0 = 1`. Row 0 lacks `theta_1`, which changes no weight. Segments add two more
columns, `sum_s [s_i = s] E_S[s, s_j]`. TUPE-A's heads of 64 columns become 64 + 64 + 1 wide, DIET-ABS's 64 + d_p. A
bias by distance has full rank and cannot become columns.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from tupe.attention.sdpa import sdpa
from tupe.position.terms import Terms


def has_only_factors(bias: Tensor | Terms | None) -> bool:
    """Return whether a bias can become columns of queries and keys."""
    return isinstance(bias, Terms) and bias.query is not None and bias.query.shape[-1] <= 192 and bias.relative is None


def widen(query: Tensor, key: Tensor, bias: Terms, scale: float) -> tuple[Tensor, Tensor]:
    """Append the columns of `bias` to queries and keys: `(B, H, T, w)`, `w` a multiple of 8 for the fused kernels.

    Args:
        query: `(B, H, T_q, d_h)`.
        key: `(B, H, T_k, d_h)`.
        bias: a bias without `relative`.
        scale: the factor by which attention will multiply their product.
    """
    bias = bias.expand(query.shape[1])
    pos_q, pos_k, theta, segment, segments = bias.query, bias.key, bias.theta, bias.segment, bias.segments
    queries, keys = [], []
    if pos_q is not None and pos_k is not None:
        pos_q = pos_q / scale
        if theta is not None:
            pos_q, pos_k = F.pad(pos_q[:, 1:], (0, 0, 1, 0)), F.pad(pos_k[:, 1:], (0, 0, 1, 0))
            not_cls = F.pad(pos_q.new_ones(len(pos_q), pos_q.shape[1] - 1, 1), (0, 0, 1, 0))
            column = F.pad(theta[1].to(pos_k.dtype)[:, None, None] / scale, (0, 0, 0, pos_k.shape[1] - 1))
            pos_q, pos_k = torch.cat((pos_q, not_cls), -1), torch.cat((pos_k, column), -1)
        queries.append(pos_q.expand(len(query), *pos_q.shape))
        keys.append(pos_k.expand(len(key), *pos_k.shape))
    if segment is not None and segments is not None:
        one_hot = torch.stack((~segments, segments), -1)[:, None].to(query.dtype)  # (B, 1, T, 2)
        queries.append((one_hot / scale).expand(-1, query.shape[1], -1, -1))
        keys.append(torch.where(segments[:, None, :, None], segment[None, :, None, :, 1], segment[None, :, None, :, 0]))
    spare = -(query.shape[-1] + sum(part.shape[-1] for part in queries)) % 8
    query, key = (torch.cat([x, *(p.to(x.dtype) for p in parts)], -1) for x, parts in ((query, queries), (key, keys)))
    return F.pad(query, (0, spare)), F.pad(key, (0, spare))


def factors(query: Tensor, key: Tensor, value: Tensor, *others: Any) -> Tensor:
    """Like `reference`, for the queries and keys of `widen`. PyTorch's fused kernels need values as wide as these."""
    wide = F.pad(value, (0, query.shape[-1] - value.shape[-1]))
    return sdpa(query, key, wide, *others)[..., : value.shape[-1]]
