r"""Untying [CLS] (TUPE, section 3.2 and eq. 9): learned constants replace its position logits.

    reset(v)_ij = v_ij      i != 0, j != 0
                  theta_1   i == 0            [CLS] to every position, itself included
                  theta_2   i != 0, j == 0    the other positions to [CLS]

`theta_1` is constant over a row of the softmax, so it changes no output and its gradient is zero. It is kept because
the paper has it and checkpoints contain it.
"""

import torch
from torch import Tensor, nn

from tupe.position.absolute import normal
from tupe.position.precision import in_float32


def reset_cls(correlation: Tensor, theta: Tensor, query_offset: int = 0) -> Tensor:
    """Apply `reset` with `theta` `(2, H)` to a correlation `(H, n, m)`, whose first row is position `query_offset`."""
    length, num_keys = correlation.shape[-2:]
    query = torch.arange(query_offset, query_offset + length, device=correlation.device).unsqueeze(-1)  # (n, 1)
    key = torch.arange(num_keys, device=correlation.device)
    theta_1, theta_2 = theta[..., None, None]  # (H, 1, 1) each
    return torch.where((query > 0) & (key > 0), correlation, torch.where(query == 0, theta_1, theta_2))


class Reset(nn.Module):
    """The learned `theta_1, theta_2` of the reset, one pair per head; `reset_cls` applies them.

    For an untied absolute term, `theta` is made from two more position vectors, so that it has the scale of the other
    cells: `theta_k = (LN(p_theta_k) U^Q)(LN(p_theta_k) U^K)^T / sqrt(2 d_h)`. Otherwise `theta` is scalars.

    Args:
        num_heads: `H`.
        embed_dim: width of the vectors `p_theta`; `None` for scalars.
        convention: `paper` resets the sum of both terms (TUPE, eq. 11). `release` follows the authors' code,
            which adds two more learned relative values to `theta` (rows 16 and 32 of its table).
        relative: whether the sum has a relative term; without one the conventions agree.
    """

    def __init__(
        self, num_heads: int, embed_dim: int | None = None, convention: str = "paper", relative: bool = False
    ) -> None:
        super().__init__()
        self.head_axes = {"scalars": 1, "relative": 1}
        own_values = relative and {"paper": False, "release": True}[convention]
        self.num_heads = num_heads
        self.vectors = None if embed_dim is None else normal(2, embed_dim)
        self.scalars = normal(2, num_heads) if embed_dim is None else None
        self.relative = normal(2, num_heads) if own_values else None

    def forward(self, absolute: nn.Module | None = None) -> Tensor:
        """Compute `theta_1, theta_2` of every head, `(2, H)`; `absolute` projects the vectors."""
        if self.scalars is not None:
            theta = self.scalars.clone()  # FSDP frees the parameter's own memory after `forward`
        else:
            query, key = in_float32(absolute, 2, self.vectors)
            theta = (query * key).sum(-1).t()  # H 2 d_h -> 2 H
        return theta if self.relative is None else theta + self.relative
