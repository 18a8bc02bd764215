"""Which pairs of the training data are left out, and how many for which reason."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional

from tupe.errors import UserError


@dataclass(frozen=True)
class Cleaning:
    """By length and ratio, counted in pieces, as Moses' `clean-corpus-n` does it in words.

    Attributes:
        max_tokens: the longest side that is kept.
        max_ratio: how many times as long as the other a side may be.

    Raises:
        UserError: for a number with which nothing could be kept.
    """

    max_tokens: int
    max_ratio: float

    def __post_init__(self) -> None:
        if self.max_tokens < 1:
            raise UserError(f"--max-tokens is {self.max_tokens}: it must be at least 1.")
        if not self.max_ratio >= 1:
            raise UserError(f"--max-ratio is {self.max_ratio}: it must be at least 1.")

    def reason(self, source: int, target: int) -> Optional[str]:
        """Why a pair of these numbers of pieces is left out; `None` if it is kept."""
        shorter, longer = sorted((source, target))
        if shorter == 0:
            return "empty on one side" if longer else "empty on both sides"
        if longer > self.max_tokens:
            return f"longer than {self.max_tokens} pieces"
        if longer > self.max_ratio * shorter:
            return f"one side more than {self.max_ratio:g} times as long as the other"
        return None
