r"""FIRE: a learned function of the distance (Li et al. 2024), with T5's buckets, ALiBi and KERPLE as special cases.

    relative(j - i) = f( sgn(j - i) min(1, psi(|j - i|) / psi(L)) ),     psi(x) = log(1 + c x),     f: 1 -> w -> H, ReLU

Two things differ from the paper. The paper divides by `psi(max(L, i))`, which depends on the query too. Here distances
beyond `L` have the value of `L`, so that inputs of all lengths share the term. And the sign distinguishes keys before
the query from keys after it, which the paper's decoders do not need.
"""

import torch
from torch import Tensor, nn

from tupe.position.registry import register_relative


@register_relative(
    "fire",
    fire_width="fire: number of hidden units of the function",
    fire_length="fire: initial distance beyond which the function is constant; 0 for the longest sequence",
)
class FireRelative(nn.Module):
    """FIRE: a function of the normalized logarithm of the distance, with one hidden layer as in the authors' code.

    It has `fire_width` hidden units `w`. `L` starts at `fire_length`, or at the longest training sequence; inputs may
    have any length. Without a reset `out_bias` is constant over a row of the softmax and changes nothing.
    """

    unit = 64  # the parameter is `L / unit`, which has the scale of the other parameters

    def __init__(self, num_heads: int, max_positions: int, *, fire_width: int = 32, fire_length: float = 0.0) -> None:
        super().__init__()
        self.head_axes = {"out_weight": 0, "out_bias": 0}
        self.num_heads = num_heads
        self.rate = nn.Parameter(torch.full((1,), 0.1))  # c
        self.length = nn.Parameter(torch.full((1,), (fire_length or max_positions) / self.unit))  # L
        # not `Linear`: models initialize its weights again, with BERT's small deviation, which flattens the function
        self.hidden_weight = nn.Parameter(torch.empty(fire_width))
        self.hidden_bias = nn.Parameter(torch.empty(fire_width))
        self.out_weight = nn.Parameter(torch.empty(num_heads, fire_width))
        self.out_bias = nn.Parameter(torch.empty(num_heads))
        inputs = {self.hidden_weight: 1, self.hidden_bias: 1, self.out_weight: fire_width, self.out_bias: fire_width}
        for parameter, number in inputs.items():
            bound = number**-0.5  # as `nn.Linear`
            nn.init.uniform_(parameter, -bound, bound)

    def forward(self, distance: Tensor) -> Tensor:
        rate, length = self.rate.abs(), self.unit * self.length.abs()
        fraction = (rate * distance.abs()).log1p() / ((rate * length).log1p() + 1e-6)
        fraction = distance.sign() * fraction.clamp(max=1)  # D, from -1 to 1
        hidden = (fraction * self.hidden_weight.unsqueeze(-1) + self.hidden_bias.unsqueeze(-1)).relu()  # w D
        return self.out_weight @ hidden + self.out_bias.unsqueeze(-1)
