r"""PoPE: content is the length of polar queries and keys, position their angle (Gopalakrishnan et al. 2025).

    logit(i, j) = sum_c softplus(q_ic) softplus(k_jc) cos((j - i) theta_c + delta_c) / sqrt(d_h)
    theta_c = base^(-c/d_h),  c = 0 .. d_h - 1,          delta_c learned

In RoPE the angle between a query and a key depends on their content too. Here it depends only on `j - i`, and there
are twice as many frequencies. The logit is the real part of a product of complex numbers, which RoPE computes with
heads twice as wide (`Rotary(2 * head_dim)`): plane `c` of a query is `(softplus(q_c), 0)` before the rotation, and of a
key `softplus(k_c) (cos delta_c, sin delta_c)`.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tupe.position.precision import at_least_float32


class Phases(nn.Module):
    """The learned `delta`, `(H, d_h)`, which starts at zero.

    The paper starts at zero or at uniform values, and finds zero better on inputs longer than in training. It limits
    `delta` to [-2 pi, 0], which covers every angle, so no limit is needed here. Public code clamps `delta`, which
    removes the gradient above zero: all phases of an encoder soon stayed at zero, where left and right are the same.
    """

    def __init__(self, num_heads: int, head_dim: int) -> None:
        super().__init__()
        self.head_axes = {"delta": 0}
        self.delta = nn.Parameter(torch.zeros(num_heads, head_dim))

    def forward(self) -> Tensor:
        """Return the cosines and the sines of `delta`, `(H, 2 d_h)`."""
        return torch.cat((self.delta.cos(), self.delta.sin()), -1)


def polar(both: Tensor, phase: Tensor) -> Tensor:
    """Map queries and keys to the planes that `rotate` rotates, in float32 or better.

    Args:
        both: `(..., 2 H, d_h)`, the queries and then the keys.
        phase: the output of `Phases`, `(H, 2 d_h)`, or `(1, 2 d_h)` for all heads.

    Returns:
        `(..., 2 H, 2 d_h)`.
    """
    query, key = F.softplus(at_least_float32(both)).chunk(2, -2)
    cos, sin = phase.chunk(2, -1)
    first = torch.cat((query, key * cos), -2)
    second = torch.cat((torch.zeros_like(query), key * sin), -2)
    return torch.cat((first, second), -1)
