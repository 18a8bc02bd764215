"""A position term of one's own, in a module outside the package: --user-dir examples/own_term, --relative tisa.

TISA (Wennberg and Henter 2021, ACL): a sum of `S` bumps of the distance, each learnt, a set of them a head,

    relative(j - i) = sum_s a_s exp(-|b_s| (j - i - c_s)^2).
"""

import torch
from torch import Tensor, nn

from tupe.position import RelativeTerm, at_least_float32, register_relative


@register_relative("tisa", tisa_kernels="bumps of each head's relative positions")
class Tisa(RelativeTerm):
    """`num_heads` and `max_positions` are the model's; what follows the star is a flag and a Hydra key."""

    def __init__(self, num_heads: int, max_positions: int, *, tisa_kernels: int = 5) -> None:
        super().__init__()
        self.height = nn.Parameter(0.1 * torch.randn(num_heads, tisa_kernels))  # a
        self.sharpness = nn.Parameter(torch.full((num_heads, tisa_kernels), 0.1))  # b
        self.centre = nn.Parameter(3.0 * torch.randn(num_heads, tisa_kernels))  # c

    def by_distance(self, first: int, stop: int) -> Tensor:
        """`relative(d)` of the distances `first .. stop - 1`, `(H, stop - first)`."""
        a, b, c = (at_least_float32(p).unsqueeze(-1) for p in (self.height, self.sharpness, self.centre))  # (H, S, 1)
        distance = torch.arange(first, stop, device=c.device)
        return (a * (-b.abs() * (distance - c).square()).exp()).sum(1)


import tupe.plugin  # noqa: E402, F401  last: the models' flags are made of what is registered by then
