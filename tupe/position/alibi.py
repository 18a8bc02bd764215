r"""ALiBi: a slope for each head times the distance (Press et al. 2022), for attention in both directions.

    symmetric     -m_h |j - i|                                   as encoders have it (MosaicBERT, Jina)
    learned       -m_h^- (i - j) for j < i,  -m_h^+ (j - i) for j > i

The fixed slopes are computed in each call. As a buffer, a cast of the model to 16 bits would round them, and the meta
device would lose them.
"""

from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tupe.position.precision import at_least_float32
from tupe.position.registry import register_relative
from tupe.position.relative import RelativeTerm, of_side
from tupe.systems import CHOICES, explained


def alibi_slopes(num_heads: int, layer_heads: int | None = None, like: Tensor | None = None) -> Tensor:
    """Compute the slopes of ALiBi's code, on the device of `like`: a copy from the host would wait for a GPU.

    For `H` heads they are `2^(-8 (h + 1) / H)`. Where `H` is not a power of 2, they are the slopes of the power below,
    then every second slope of the power above.

    Args:
        num_heads: number of slopes.
        layer_heads: `H`, the heads of each layer; by default `num_heads`.
        like: tensor with the device and the type of the result; by default float32 on the CPU.

    Returns:
        `(num_heads,)`, layer by layer.
    """
    layer_heads, like = layer_heads or num_heads, torch.empty(0) if like is None else like
    power = 1 << (layer_heads.bit_length() - 1)
    head = torch.arange(num_heads, dtype=like.dtype, device=like.device) % layer_heads
    return torch.where(head < power, -8 * (head + 1) / power, -4 * (2 * (head - power) + 1) / power).exp2()


@register_relative("alibi", relative_sides="slopes of alibi; " + explained(CHOICES["relative_sides"]))
class AlibiRelative(RelativeTerm):
    """ALiBi: the logit falls by `m_h` with each step of distance.

    Args:
        num_heads: `H`; the heads of all layers together where each layer has its own.
        max_positions: not used; inputs may have any length.
        relative_sides: `symmetric` or `learned`, as above.
        layer_heads: heads of one layer, which determine the slopes; `num_heads` if not given.
        sharing: the model's `sharing`, not `head`, since ALiBi's heads differ by their slopes.
        bidirectional: `False` for a decoder, where no key comes after the query: it learns the slopes of one side.
    """

    head_axes: ClassVar[dict[str, int]] = {"slope": 1}
    anchor: Tensor

    def __init__(
        self,
        num_heads: int,
        max_positions: int | None = None,
        *,
        relative_sides: str = "symmetric",
        layer_heads: int | None = None,
        sharing: str = "layer",
        bidirectional: bool = True,
    ) -> None:
        super().__init__()
        assert sharing != "head", "the heads of ALiBi differ by their slopes: set sharing to layer or none"
        self.num_heads = num_heads
        self.heads = num_heads, layer_heads or num_heads
        learned = {"symmetric": False, "learned": True}[relative_sides]
        #: Carries the device and the precision of a term without parameters.
        self.register_buffer("anchor", torch.zeros(1), persistent=False)
        self.slope = None
        if learned:
            slopes = alibi_slopes(*self.heads).view(-1, self.heads[1])  # of each layer
            sides = torch.stack((slopes, slopes.flip(1)) if bidirectional else (slopes,)).flatten(1)
            self.slope = nn.Parameter(sides.expm1().log())

    def by_distance(self, first: int, stop: int) -> Tensor:
        like = at_least_float32(self.anchor)
        distance = torch.arange(first, stop, device=like.device)
        far = distance.abs().to(like.dtype)
        if self.slope is not None:
            return -of_side(F.softplus(at_least_float32(self.slope)), distance) * far
        return alibi_slopes(*self.heads, like).unsqueeze(-1) * -far
