"""Positions in the attention from the target to the source (an option; none of the papers has it).

Two languages have neither order nor length in common, so `j - i` is at best a soft diagonal.
"""

from __future__ import annotations

import itertools
import math
from argparse import Namespace
from collections.abc import Iterator

import torch
from torch import nn

from tupe.position import PositionTerms


class CrossPosition(nn.Module):
    """`cross(i, j)` of target position `i` and source position `j`, the same for all layers, or nothing."""

    num_terms = 1
    max_target_positions = math.inf

    def layer_terms(self, length: int, num_keys: int, dtype: torch.dtype, first: int = 0) -> Iterator[PositionTerms]:
        return itertools.repeat(PositionTerms())


def build_cross_position(args: Namespace) -> CrossPosition:
    return CrossPosition()
