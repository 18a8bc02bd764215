r"""KERPLE-log: a bias that falls with the logarithm of the distance (Chi et al. 2022), learned per side.

    relative(j - i) = -p_{h,s} log(1 + a_{h,s} |j - i|),     s = [j > i],     p, a > 0

It is added after the scaling of the content, as in the authors' code; their equation 2 adds it before. Paper and code
are for decoders. Here each side has its own `p` and `a`, because one pair could not distinguish the direction.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tupe.position.registry import register_relative
from tupe.position.relative import per_side


@register_relative("kerple")
class KerpleRelative(nn.Module):
    """KERPLE-log: the logit falls with the logarithm of the distance, at a learned height and rate."""

    least = 0.01  # lower bound of `p` and `a`; the authors' code clamps at it, and this code adds `softplus`

    def __init__(self, num_heads: int, *, bidirectional: bool = True) -> None:
        super().__init__()
        self.head_axes = {"height": 1, "rate": 1}
        self.num_heads = num_heads
        shape = 2 if bidirectional else 1, num_heads
        #: `p` and `a` before `softplus`. They start uniform in (0, 2) and (0, 1), as in the authors' code.
        self.height = nn.Parameter(self.inverse(2 * torch.rand(shape)))
        self.rate = nn.Parameter(self.inverse(torch.rand(shape)))

    @classmethod
    def inverse(cls, positive: Tensor) -> Tensor:
        """Return the parameter for which `self.positive` gives these values."""
        return (positive - cls.least).clamp(min=cls.least).expm1().log()

    def positive(self, parameter: Tensor) -> Tensor:
        """Map a parameter to its `p` or `a`, which is above `least`."""
        return self.least + F.softplus(parameter)

    def forward(self, distance: Tensor) -> Tensor:
        height, rate = (per_side(self.positive(p), distance) for p in (self.height, self.rate))  # H D each
        return -height * (rate * distance.abs()).log1p()
