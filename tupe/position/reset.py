r"""Untying [CLS] (TUPE, section 3.2 and eq. 10): its position is not correlated with the others'.

    reset(v)_ij = v_ij      i != 0, j != 0
                  theta_1   i == 0            [CLS] to every j, itself included
                  theta_2   i != 0, j == 0    the others to [CLS]

`theta_1` is one constant over a whole softmax row: it changes no output, and its gradient is zero. It is kept because
the paper has it and checkpoints hold it.
"""

from typing import ClassVar

import torch
from torch import Tensor, nn

from tupe.errors import UserError
from tupe.position.absolute import INIT_STD, UntiedAbsolute
from tupe.position.precision import at_least_float32

CONVENTIONS = ("paper", "release")


def reset_cls(correlation: Tensor, theta: Tensor, query_offset: int = 0) -> Tensor:
    """`reset(v)` of a correlation `v` `(H, n, m)` with `theta` `(2, H)`, its first row that of `query_offset`."""
    length, num_keys = correlation.shape[-2:]
    query = torch.arange(query_offset, query_offset + length, device=correlation.device).unsqueeze(-1)  # (n, 1)
    key = torch.arange(num_keys, device=correlation.device)
    theta_1, theta_2 = theta.to(correlation.dtype)[..., None, None]  # (H, 1, 1) each
    return torch.where((query > 0) & (key > 0), correlation, torch.where(query == 0, theta_1, theta_2))


class Reset(nn.Module):
    """`reset` with its learnt `theta_1, theta_2`, one pair a head.

    With an untied absolute term they are correlations of two more position vectors, so that they have the scale of the
    other cells: `theta_k = (LN(p_theta_k) U^Q)(LN(p_theta_k) U^K)^T / sqrt(2 d_h)`. Without one they are plain scalars.

    Args:
        num_heads: `H`.
        embed_dim: width of the vectors `p_theta`; `None` for scalars.
        convention: `paper` resets the sum of the content-free terms (TUPE, eq. 11). `release`, what the authors' code
            does, adds to theta two learnt relative values of their own (rows 16 and 32 of its table).
        relative: whether the sum has a relative term; without one the conventions agree.
    """

    head_axes: ClassVar[dict[str, int]] = {"scalars": 1, "relative": 1}

    def __init__(
        self, num_heads: int, embed_dim: int | None = None, convention: str = "paper", relative: bool = False
    ) -> None:
        super().__init__()
        if convention not in CONVENTIONS:
            raise UserError(f"unknown reset convention {convention!r}: choose one of {', '.join(CONVENTIONS)}")
        self.convention = convention
        self.vectors = None if embed_dim is None else nn.Parameter(torch.empty(2, embed_dim))
        self.scalars = nn.Parameter(torch.empty(2, num_heads)) if embed_dim is None else None
        self.relative = nn.Parameter(torch.empty(2, num_heads)) if relative and convention == "release" else None
        for parameter in self.parameters():
            nn.init.normal_(parameter, std=INIT_STD)

    def forward(self, absolute: UntiedAbsolute | None = None) -> Tensor:
        """`theta_1, theta_2` of every head, `(2, H)`. `absolute` holds the projections where theta has vectors."""
        if self.vectors is not None and absolute is not None:
            theta = absolute(len(self.vectors), vectors=self.vectors)
        else:
            assert self.scalars is not None, "theta is made of vectors, which take the projections of `absolute`"
            theta = at_least_float32(self.scalars).clone()  # FSDP frees the parameter's own memory after `forward`
        return theta if self.relative is None else theta + at_least_float32(self.relative)
