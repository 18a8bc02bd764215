r"""Dual Triangle Attention: half of the heads see the past, the others the future (Hallee and Gleghorn 2026).

    relative_h(j - i) = 0 where j <= i,  else hidden          h = 0, 2, 4, ...
                        0 where j >= i,  else hidden          h = 1, 3, 5, ...

The paper halves the columns of the queries, keys and values of each head. One half sees a lower triangle, the other an
upper triangle, and each has its own softmax, scaled by the root of its width. That is attention with twice the
heads, each of half the width, under these masks, so `dual_triangle_base` has 24 heads of 32 columns. The term has no
parameters: the number of keys that a query sees shows its position, except in windows, where only the ends differ.
The paper's RoPE rotates whole heads before it halves them; `rotary_dims` rotates each half with all angles. Kernels
that skip hidden blocks would save half of the products; here all of them are computed.
"""

import torch
from torch import Tensor, nn

from tupe.position.registry import register_relative

#: A logit so low that its weight is exactly 0, even in float16. It is finite because all keys that a padding position
#: may attend to can be padding themselves, and a softmax over only -inf is NaN.
HIDDEN = -10_000.0


@register_relative("dual_triangle")
class DualTriangleRelative(nn.Module):
    """Masks of the past and of the future, alternating by head."""

    def __init__(self, num_heads: int, *, sharing: str = "layer", bidirectional: bool = True) -> None:
        super().__init__()
        assert bidirectional and sharing != "head", "dual_triangle needs an encoder, and sharing=layer or sharing=none"
        self.num_heads = num_heads

    def forward(self, distance: Tensor) -> Tensor:
        hidden = torch.stack((distance > 0, distance < 0))  # 2 D
        return HIDDEN * hidden[torch.arange(self.num_heads, device=distance.device) % 2]  # H D
