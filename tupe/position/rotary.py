r"""Rotary positions: queries and keys are rotated by their positions (Su et al. 2021).

    logit(i, j) = (R_i q_i) . (R_j k_j) / sqrt(d_h),         theta_c = base^(-2c/r),  c = 0 .. r/2 - 1

`R_i` rotates dimensions `(c, c + r/2)` by `i theta_c`, so that the product depends on `j - i`. Dimensions from `r` on
are unchanged. NeoX, LLaMA and ModernBERT pair dimensions in this way. The paper pairs neighbours, which is the same
after a permutation of the columns of `W^Q` and `W^K`. Values and position terms are not rotated.
"""

import torch
from torch import Tensor, nn

from tupe.position.length import Span
from tupe.position.precision import at_least_float32
from tupe.tracing import is_traced


class Rotary(nn.Module):
    """Cosines and sines of the angles of each position; no parameters.

    Args:
        head_dim: `d_h`.
        dims: `r`, even, at most `d_h`; -1 for all dimensions.
        base: the base of `theta_c`, at least 1.
    """

    anchor: Tensor

    def __init__(self, head_dim: int, dims: int = -1, base: float = 10_000.0) -> None:
        super().__init__()
        width = head_dim if dims == -1 else dims
        assert width % 2 == 0 and width <= head_dim, f"{dims} of {head_dim} dimensions cannot rotate in pairs"
        self.width = width
        self.base = base
        #: Carries the device of the angles, and whether they are float64. As a buffer, 16 bits would round them.
        self.register_buffer("anchor", torch.zeros(1), persistent=False)

    def thetas(self) -> Tensor:
        """Compute all `theta_c`, `(r / 2,)`, in float32 or better, on the device: a copy would wait for a GPU."""
        like = at_least_float32(self.anchor)
        plane = torch.arange(self.width // 2, dtype=like.dtype, device=like.device)
        return 1 / self.base ** (2 * plane / self.width)

    def forward(self, length: int, query_offset: int = 0) -> Tensor:
        """Compute what `rotate` takes, for `length` positions from `query_offset` on: `(2, length, r)`.

        The first is cosines, the second sines, negated in the first half of the dimensions; both in float32 or better.
        """
        thetas, span = self.thetas(), Span.of(length, None, query_offset)
        positions = torch.arange(query_offset, span.end, device=thetas.device)
        angles = positions.to(thetas.dtype).unsqueeze(-1) * thetas  # n r/2
        cos, sin = angles.cos(), angles.sin()
        return torch.stack((torch.cat((cos, cos), -1), torch.cat((-sin, sin), -1)))


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


def rotate(x: Tensor, rotation: Tensor) -> Tensor:
    """Turn the first `r` columns of `x`, in float32 or better, and round once.

    Args:
        x: `(..., n, H, d_h)`. One call for queries and keys, as `2 H` heads, is faster than two.
        rotation: the output of `Rotary`, `(2, n, r)`, or `(2, ..., n, r)` where sequences differ in their positions.

    Returns:
        A tensor of the shape and type of `x`.
    """
    cos, sin = rotation.unsqueeze(-2)  # n 1 r
    width = cos.shape[-1]
    columns = at_least_float32(x if width == x.shape[-1] else x[..., :width])
    if is_traced() or rotation.requires_grad:  # `_Turned` has no gradient to learn angles by
        turned = torch.addcmul(columns * cos, columns.roll(width // 2, -1), sin)
    else:
        turned = _Turned.apply(columns, cos, sin)
    turned = turned.to(x.dtype)
    return turned if width == x.shape[-1] else torch.cat((turned, x[..., width:]), -1)
