r"""Rotary positions: each query and key is turned by its position, so products depend on `j - i` (Su et al. 2021).

    logit(i, j) = (R_i q_i) . (R_j k_j) / sqrt(d_h),         theta_c = base^(-2c/r),  c = 0 .. r/2 - 1

`R_i` turns the plane of the columns `c` and `c + r/2` by `i theta_c`; columns from `r` on stay. NeoX, LLaMA and
ModernBERT pair columns in this way. The paper pairs neighbours, which is the same after a permutation of the columns of
`W^Q` and `W^K`. Values and position terms are not turned. For inputs `s` times longer than in training, `scaling`
shrinks the angles:

    linear    theta_c / s
    ntk       base s^(r/(r-2)) for the base: the fastest plane as it was, the slowest divided by s
    yarn      slow planes divided by s, fast ones as they were; queries and keys times 0.1 log s + 1 (Peng et al. 2024)
"""

import math

import torch
from torch import Tensor, nn

from tupe.errors import UserError
from tupe.position.arguments import check_tensors, check_types, shown
from tupe.position.length import Span
from tupe.position.precision import at_least_float32, has_16_bits
from tupe.systems import CHOICES
from tupe.tracing import is_traced

SCALINGS = tuple(CHOICES["rotary_scaling"])


def frequencies(
    width: int, base: float, scaling: str = "none", factor: float = 1.0, length: float = 0, like: Tensor | None = None
) -> Tensor:
    """Compute `theta_c` for each plane `c`, on the device of `like`: a copy from the host would wait for a GPU.

    Args:
        width: `r`.
        base: the base of the powers.
        scaling: `none`, `linear`, `ntk` or `yarn`.
        factor: `s`, how many times longer than in training the inputs are; not used by `none`.
        length: the longest training input; only `yarn` needs it.
        like: tensor with the device and the type of the result; by default float32 on the CPU.

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
    # planes up to `first` turn at least 32 times within `length` and stay; those from `last` on turn at most once
    first, last = (width * math.log(length / (2 * math.pi * turns)) / (2 * math.log(base)) for turns in (32, 1))
    first, last = max(math.floor(first), 0), min(math.ceil(last), width - 1)
    slow = ((plane - first) / max(last - first, 1e-3)).clamp(0, 1)
    return theta * (1 - slow) + theta / factor * slow


class Rotary(nn.Module):
    """Cosines and sines of the angles of each position; no parameters.

    Args:
        head_dim: `d_h`.
        dims: `r`, even, at most `d_h`; -1 for all columns.
        base: the base of `theta_c`, at least 1.
        scaling: how angles shrink for inputs longer than in training: `none`, `linear`, `ntk` or `yarn`.
        factor: `s`, how many times longer these are, at least 1.
        max_positions: the longest input; without `length`, `yarn` takes `max_positions / factor` for it.
        length: the longest training input, of which only `yarn` asks; 0 if it is not known.

    Raises:
        UserError: for an odd or too large `dims`, and for a `base`, `scaling`, `factor` or `length` out of range.
    """

    anchor: Tensor

    @check_types
    def __init__(
        self,
        head_dim: int,
        dims: int = -1,
        base: float = 10_000.0,
        scaling: str = "none",
        factor: float = 1.0,
        max_positions: float = 0,
        length: float = 0,
    ) -> None:
        super().__init__()
        width = head_dim if dims == -1 else dims
        if width % 2 or not 2 <= width <= head_dim:
            raise UserError(
                f"dims of Rotary (a model's rotary_dims) is {dims}, but columns turn in pairs: use an even number from "
                f"2 to {head_dim}, the width of a head{', or -1 for all' if head_dim % 2 == 0 else ''}"
            )
        if scaling not in SCALINGS:
            raise UserError(
                f"scaling of Rotary (a model's rotary_scaling) is {scaling}, but must be one of {', '.join(SCALINGS)}"
            )
        if not 1 <= base < math.inf or (scaling == "yarn" and base == 1):
            raise UserError(
                f"base of Rotary (a model's rotary_base) is {base:g}, but must be at least 1, and more for yarn"
            )
        if not 1 <= factor < math.inf or (scaling == "none" and factor != 1):
            raise UserError(
                f"factor of Rotary (a model's rotary_factor) is {factor:g}, but must be 1 without scaling, and at "
                "least 1 with linear, ntk or yarn"
            )
        if not 0 <= length < math.inf:
            raise UserError(
                f"length of Rotary (a model's rotary_length) is {length:g}, but must be above 0, or 0 for "
                "max_positions / factor"
            )
        if scaling == "yarn" and not length and max_positions < 1:
            raise UserError("yarn needs max_positions, by which it knows the length of training: give at least 1")
        self.width = width
        self.of_angles = base, scaling, factor, length or max_positions / factor
        self.amplitude = 0.1 * math.log(factor) + 1 if scaling == "yarn" else 1.0
        #: Carries the device of the angles, and whether they are float64. As a buffer, 16 bits would round them.
        self.register_buffer("anchor", torch.zeros(1), persistent=False)

    def thetas(self) -> Tensor:
        """Compute all `theta_c`, `(r / 2,)`, in float32 or better."""
        return frequencies(self.width, *self.of_angles, like=at_least_float32(self.anchor))

    def forward(self, length: int, query_offset: int = 0) -> Tensor:
        """Compute what `rotate` takes, for `length` positions from `query_offset` on: `(2, length, r)`.

        The first is cosines, the second sines, negated in the first half of the columns; both in float32 or better.
        """
        thetas, span = self.thetas(), Span.of(length, None, query_offset)
        positions = torch.arange(query_offset, span.end, device=thetas.device)
        angles = positions.to(thetas.dtype).unsqueeze(-1) * thetas  # n r/2
        cos, sin = self.amplitude * angles.cos(), self.amplitude * angles.sin()
        return torch.stack((torch.cat((cos, cos), -1), torch.cat((-sin, sin), -1)))

    def extra_repr(self) -> str:
        return f"{self.width}"


def _turn(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Compute `x cos + roll(x) sin`, without a graph."""
    return x.roll(cos.shape[-1] // 2, -1).mul_(sin).addcmul_(x, cos)


class _Turned(torch.autograd.Function):
    """`x cos + roll(x) sin`, with fewer passes over memory than autograd's backward, which turns back the same way."""

    @staticmethod
    def forward(ctx, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        ctx.save_for_backward(cos, sin)
        return _turn(x, cos, sin)

    @staticmethod
    def backward(ctx, grad: Tensor) -> tuple[Tensor, None, None]:  # pyright: ignore[reportIncompatibleMethodOverride]
        cos, sin = ctx.saved_tensors
        return _Turned.apply(grad, cos, -sin), None, None


class _Split(torch.autograd.Function):
    """Queries and keys of a tensor, turned, and its values. Backward joins the three gradients in one pass."""

    @staticmethod
    def forward(ctx, qkv: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, ...]:
        ctx.save_for_backward(cos, sin)
        heads = qkv.shape[-2] // 3
        query, key = _turn(qkv[..., : 2 * heads, :], cos, sin).chunk(2, -2)
        return query, key, qkv[..., 2 * heads :, :]

    @staticmethod
    def backward(ctx, *grads: Tensor) -> tuple[Tensor, None, None]:  # pyright: ignore[reportIncompatibleMethodOverride]
        cos, sin = ctx.saved_tensors
        query, key, value = grads
        return torch.cat((*(_Turned.apply(x, cos, -sin) for x in (query, key)), value), -2), None, None


def _check_rotation(x: Tensor, rotation: object) -> None:
    """Raise `UserError` unless `x` `(..., n, H, d_h)` has the `n` positions of a rotation, and at least its width."""
    if not isinstance(rotation, Tensor) or rotation.ndim != 3 or len(rotation) != 2:
        raise UserError(
            f"rotation is {shown(rotation)}, but must be a tensor (2, n, r): give position(n).rotation of "
            "PositionBias(rotation=Rotary(head_dim))"
        )
    check_tensors(rotation, x=x)
    if not x.is_floating_point():
        raise UserError(f"x is {x.dtype}, but must be floating: give projected words")
    length, width = rotation.shape[-2:]
    if x.ndim >= 3 and x.shape[-3] == length and x.shape[-1] >= width:
        return
    swapped = x.ndim >= 3 and x.shape[-2] == length and x.shape[-1] >= width
    mending = (
        "give x.transpose(1, 2), as heads come after the length here"
        if swapped
        else "give x of that shape, or the rotation of its length"
    )
    raise UserError(
        f"x {tuple(x.shape)} does not fit a rotation of {length} positions and {width} columns, which turns "
        f"(..., {length}, H, d_h) with d_h of at least {width}: {mending}"
    )


def rotate(x: Tensor, rotation: Tensor) -> Tensor:
    """Turn the first `r` columns of `x`, in float32 or better, and round once.

    Args:
        x: `(..., n, H, d_h)`. One call for queries and keys, as `2 H` heads, is faster than two.
        rotation: the output of `Rotary`, `(2, n, r)`, or `(2, ..., n, r)` where sequences differ in their positions.

    Returns:
        A tensor of the shape and type of `x`.

    Raises:
        UserError: if the rotation is no `(2, n, r)`, is of another length than `x`, or is wider than its heads.
    """
    traced = is_traced()
    if not traced:  # a graph's sizes may be symbols
        _check_rotation(x, rotation)
    cos, sin = rotation.unsqueeze(-2)  # n 1 r
    width = cos.shape[-1]
    columns = at_least_float32(x if width == x.shape[-1] else x[..., :width])
    if traced or rotation.requires_grad:  # `_Turned` has no gradient to learn angles by
        turned = torch.addcmul(columns * cos, columns.roll(width // 2, -1), sin)
    else:
        turned = _Turned.apply(columns, cos, sin)
    turned = turned.to(x.dtype)
    return turned if width == x.shape[-1] else torch.cat((turned, x[..., width:]), -1)


def rotate_heads(qkv: Tensor, rotation: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Split `qkv` `(..., n, 3 H, d_h)` into queries, keys and values in heads, and turn the first two as `rotate`."""
    cos, sin = rotation.unsqueeze(-2)
    whole = cos.shape[-1] == qkv.shape[-1] and not has_16_bits(qkv)
    if whole and not is_traced() and not rotation.requires_grad:
        return _Split.apply(qkv, cos, sin)
    heads = qkv.shape[-2] // 3
    both, value = qkv.split((2 * heads, heads), -2)
    query, key = rotate(both, rotation).chunk(2, -2)
    return query, key, value
