r"""Rotary positions: queries and keys turn with their position, so that products depend on `j - i` (Su et al. 2021).

    logit(i, j) = (R_i q_i) . (R_j k_j) / sqrt(d_h),         theta_c = base^(-2c/r),  c = 0 .. r/2 - 1

`R_i` turns the plane of the columns `c` and `c + r/2` by `i theta_c`; columns from `r` on stay. These planes are those
of NeoX, LLaMA and ModernBERT; the paper's, of neighbouring columns, are the same after the columns of `W^Q` and `W^K`
are permuted. Values and position terms are not turned. For inputs longer than in training the angles shrink:

    linear    theta_c / s
    ntk       base s^(r/(r-2)) for the base: the fastest plane as it was, the slowest divided by s
    yarn      slow planes divided by s, fast ones as they were; queries and keys times 0.1 log s + 1 (Peng et al. 2024)
"""

import math

import torch
from torch import Tensor, nn

from tupe.errors import UserError
from tupe.position.precision import at_least_float32
from tupe.systems import CHOICES

SCALINGS = tuple(CHOICES["rotary_scaling"])


def frequencies(
    width: int, base: float, scaling: str = "none", factor: float = 1.0, length: float = 0, like: Tensor | None = None
) -> Tensor:
    """Compute the `theta_c` of each plane where they are needed: a copy from the host would wait for a GPU.

    Args:
        width: `r`.
        base: of the powers.
        scaling: `none`, `linear`, `ntk` or `yarn`.
        factor: `s`, how many times longer than in training the inputs are.
        length: of the inputs of training, which `yarn` asks for.
        like: has the device and the type of the result; by default float32 on the CPU.

    Returns:
        `(r / 2,)`.
    """
    like = torch.empty(0) if like is None else like
    plane = torch.arange(width // 2, dtype=like.dtype, device=like.device)
    if scaling == "ntk" and width > 2:
        base *= factor ** (width / (width - 2))
    theta = 1 / base ** (2 * plane / width)
    if scaling == "linear":
        return theta / factor
    if scaling != "yarn":
        return theta
    # planes up to `first` turn 32 times or more within `length` and stay, those from `last` on at most once
    first, last = (width * math.log(length / (2 * math.pi * turns)) / (2 * math.log(base)) for turns in (32, 1))
    first, last = max(math.floor(first), 0), min(math.ceil(last), width - 1)
    slow = ((plane - first) / max(last - first, 1e-3)).clamp(0, 1)
    return theta * (1 - slow) + theta / factor * slow


class Rotary(nn.Module):
    """Cosines and sines of the angles of each position; no parameters.

    Args:
        head_dim: `d_h`.
        dims: `r`, even, at most `d_h`; -1 for all columns.
        base: of the angles, at least 1.
        scaling: how angles shrink for inputs longer than in training: `none`, `linear`, `ntk` or `yarn`.
        factor: `s`, how many times longer they are, at least 1.
        max_positions: the longest input; `yarn` takes `max_positions / factor` for the length of training.

    Raises:
        UserError: for numbers of which there are no planes or angles.
    """

    anchor: Tensor

    def __init__(
        self,
        head_dim: int,
        dims: int = -1,
        base: float = 10_000.0,
        scaling: str = "none",
        factor: float = 1.0,
        max_positions: float = 0,
    ) -> None:
        super().__init__()
        width = head_dim if dims == -1 else dims
        if width % 2 or not 2 <= width <= head_dim:
            raise UserError(
                f"rotary_dims is {dims}, but columns turn in pairs: use an even number from 2 to {head_dim}, the width "
                f"of a head{', or -1 for all' if head_dim % 2 == 0 else ''}"
            )
        if scaling not in SCALINGS:
            raise UserError(f"rotary_scaling is {scaling}, but must be one of {', '.join(SCALINGS)}")
        if not 1 <= base < math.inf or (scaling == "yarn" and base == 1):
            raise UserError(f"rotary_base is {base:g}, but must be at least 1, and more for yarn")
        if not 1 <= factor < math.inf or (scaling == "none" and factor != 1):
            raise UserError(
                f"rotary_factor is {factor:g}, but must be 1 without rotary_scaling, and at least 1 with linear, ntk "
                "or yarn"
            )
        if scaling == "yarn" and max_positions < 1:
            raise UserError("yarn needs max_positions, by which it knows the length of training: give at least 1")
        self.width = width
        self.of_angles = base, scaling, factor, max_positions / factor
        self.amplitude = 0.1 * math.log(factor) + 1 if scaling == "yarn" else 1.0
        #: Says on which device the angles are, and whether in float64. No buffer has them, as 16 bits would round them.
        self.register_buffer("anchor", torch.zeros(1), persistent=False)

    def thetas(self) -> Tensor:
        """Compute the `theta_c`, `(r / 2,)`, in float32 or better."""
        return frequencies(self.width, *self.of_angles, like=at_least_float32(self.anchor))

    def forward(self, length: int, query_offset: int = 0) -> Tensor:
        """Return what `rotate` takes, for `length` positions from `query_offset` on: `(2, length, r)`.

        It is the cosines, and the sines with the sign of their half, in float32 or better.
        """
        thetas = self.thetas()
        positions = torch.arange(query_offset, query_offset + length, device=thetas.device)
        angles = positions.to(thetas.dtype).unsqueeze(-1) * thetas  # n r/2
        cos, sin = self.amplitude * angles.cos(), self.amplitude * angles.sin()
        return torch.stack((torch.cat((cos, cos), -1), torch.cat((-sin, sin), -1)))

    def extra_repr(self) -> str:
        return f"{self.width}"


def rotate(x: Tensor, rotation: Tensor) -> Tensor:
    """Turn the first columns of `x`, in float32 or better, and round once.

    Args:
        x: `(..., n, H, d_h)`, queries and keys side by side if their heads are: one call for both is the fastest.
        rotation: of `Rotary`, `(2, n, r)`, or `(2, ..., n, r)` for positions of each sequence.

    Returns:
        as `x`, and of its type.
    """
    cos, sin = rotation.unsqueeze(-2)  # n 1 r
    width = cos.shape[-1]
    columns = at_least_float32(x if width == x.shape[-1] else x[..., :width])
    turned = torch.addcmul(columns * cos, columns.roll(width // 2, -1), sin).to(x.dtype)
    return turned if width == x.shape[-1] else torch.cat((turned, x[..., width:]), -1)
