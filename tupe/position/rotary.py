r"""Rotary positions: queries and keys are rotated by their positions (Su et al. 2021).

    logit(i, j) = (R_i q_i) . (R_j k_j) / sqrt(d_h),         theta_c = base^(-2c/r),  c = 0 .. r/2 - 1

`R_i` rotates dimensions `(c, c + r/2)` by `i theta_c`, so that the product depends on `j - i`. Dimensions from `r` on
are unchanged. NeoX, LLaMA and ModernBERT pair dimensions in this way. The paper pairs neighbors, which is the same
after a permutation of the columns of `W^Q` and `W^K`. Values and position terms are not rotated.
"""

import torch
from torch import Tensor, nn

from tupe.position.precision import at_least_float32


class Rotary(nn.Module):
    """Cosines and sines of the angles of each position; no parameters.

    Args:
        head_dim: `d_h`.
        dims: `r`, even, at most `d_h`; -1 for all dimensions.
        base: the base of `theta_c`, at least 1.
    """

    def __init__(self, head_dim: int, dims: int = -1, base: float = 10_000.0) -> None:
        super().__init__()
        self.width = head_dim if dims == -1 else dims
        assert self.width % 2 == 0, f"the number of rotated dimensions must be even, got {self.width}"
        self.base = base

    def forward(self, position: Tensor) -> Tensor:
        """Compute the `rotation` of `rotate`, `(2, n, r)`, for positions `(n,)` of a floating type.

        Index 0 holds the cosines, and index 1 the sines, negated in the first half of the dimensions.
        """
        plane = torch.arange(self.width // 2, dtype=position.dtype, device=position.device)
        angles = position.unsqueeze(-1) / self.base ** (2 * plane / self.width)  # n r/2
        cos, sin = angles.cos(), angles.sin()
        return torch.stack((torch.cat((cos, cos), -1), torch.cat((-sin, sin), -1)))


def rotate(x: Tensor, rotation: Tensor) -> Tensor:
    """Rotate the first `r` columns of `x`, in float32 or better, and round once.

    Args:
        x: `(..., n, H, d_h)`. One call for queries and keys, as `2 H` heads, is faster than two.
        rotation: the output of `Rotary`, `(2, n, r)`, or `(2, ..., n, r)` where sequences differ in their positions.

    Returns:
        A tensor of the shape and type of `x`.
    """
    cos, sin = rotation.unsqueeze(-2)  # n 1 r
    width = cos.shape[-1]
    columns = at_least_float32(x[..., :width])
    rotated = torch.addcmul(columns * cos, columns.roll(width // 2, -1), sin).to(x.dtype)
    return rotated if width == x.shape[-1] else torch.cat((rotated, x[..., width:]), -1)
