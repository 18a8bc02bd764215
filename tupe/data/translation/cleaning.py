"""Leave out pairs of the training data that are too long or too unequal."""

from dataclasses import dataclass

from tupe.files import checked


@dataclass(frozen=True)
class Cleaning:
    """Limits of length and ratio like those of Moses' `clean-corpus-n`, but counted in tokens."""

    max_tokens: int = checked(minimum=1)  # the longest side that is kept
    max_ratio: float = checked(minimum=1)  # how many times as long as the other a side may be

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
