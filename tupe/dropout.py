"""Dropout with 16 random bits a number on the CPU, where PyTorch draws 64, one number after the other."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tupe.tracing import is_traced


def dropout(x: Tensor, p: float, training: bool = True) -> Tensor:
    """`torch.nn.functional.dropout` of `x`, of any shape; on the CPU the rate is a multiple of 1/65536.

    Raises:
        ValueError: if `p` is no probability.
    """
    rate = round(p * 65536)
    if not training or not 0 < rate < 65536 or x.device.type != "cpu" or is_traced():
        return F.dropout(x, p, training)
    bits = torch.empty((x.numel() + 3) // 4, dtype=torch.int64).random_(-(2**63), None)
    kept = bits.view(torch.int16)[: x.numel()].view(x.shape) >= rate - 32768
    return x * kept.to(x.dtype).mul_(65536 / (65536 - rate))


class Dropout(nn.Dropout):
    """`torch.nn.Dropout` by `dropout`."""

    def forward(self, x: Tensor) -> Tensor:
        """`x` of any shape, to the same."""
        return dropout(x, self.p, self.training)
