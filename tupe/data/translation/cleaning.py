"""Leave out pairs of the training data that are too long or too unequal."""

import math
from dataclasses import dataclass

from tupe.errors import UserError


@dataclass(frozen=True)
class Cleaning:
    """Limits of length and ratio like those of Moses' `clean-corpus-n`, but counted in tokens.

    Raises:
        UserError: for a number with which nothing could be kept.
    """

    max_tokens: int  # the longest side that is kept
    max_ratio: float  # how many times as long as the other a side may be

    def __post_init__(self) -> None:
        if self.max_tokens < 1:
            raise UserError(f"--max-tokens is {self.max_tokens}: it must be at least 1.")
        if not 1 <= self.max_ratio < math.inf:  # JSON, in which the manifest has it, knows no infinity
            raise UserError(f"--max-ratio is {self.max_ratio}: it must be a number of at least 1.")

    def reason(self, source: int, target: int) -> str | None:
        """Tell why a pair of these numbers of tokens is left out; `None` if it is kept."""
        shorter, longer = sorted((source, target))
        if shorter == 0:
            return "empty on one side" if longer else "empty on both sides"
        if longer > self.max_tokens:
            return f"longer than {self.max_tokens} tokens"
        if longer > self.max_ratio * shorter:
            return f"one side more than {self.max_ratio:g} times as long as the other"
        return None
