"""A user's position term, in a module outside the package: --user-dir examples/own_term, --relative tisa.

TISA (Wennberg and Henter 2021, ACL): a sum of `S` bumps of the distance, each learned, a set per head,

    relative(j - i) = sum_s a_s exp(-|b_s| (j - i - c_s)^2).
"""

import torch
from torch import Tensor, nn

from tupe.position import register_relative


@register_relative("tisa", tisa_kernels="bumps of each head's relative positions")
class Tisa(nn.Module):
    """`num_heads` is the model's; arguments after the star are flags and Hydra keys."""

    def __init__(self, num_heads: int, *, tisa_kernels: int = 5) -> None:
        super().__init__()
        self.height = nn.Parameter(0.1 * torch.randn(num_heads, tisa_kernels, 1))  # a
        self.sharpness = nn.Parameter(torch.full((num_heads, tisa_kernels, 1), 0.1))  # b
        self.centre = nn.Parameter(3.0 * torch.randn(num_heads, tisa_kernels, 1))  # c

    def forward(self, distance: Tensor) -> Tensor:
        bumps = self.height * (-self.sharpness.abs() * (distance - self.centre).square()).exp()  # H S D
        return bumps.sum(1)  # (D,) -> (H, D)


import tupe.plugin  # noqa: E402, F401  last: the models' flags are made of the terms registered so far
