"""Answers that are kept by their question, in bounded memory: for words, of which text has few different ones."""

from collections.abc import Callable
from typing import Any

_LONGEST = 64


class Memo(dict):
    """`memo[key]` is `function(key)`, asked once as long as it is kept.

    `map(memo.__getitem__, keys)` runs without Python code for what is kept. When `size` keys are kept, all are
    forgotten. A long one is never kept: it hardly comes again.
    """

    def __init__(self, function: Callable[[Any], Any], size: int = 1 << 18) -> None:
        super().__init__()
        self._function, self._size = function, size

    def __missing__(self, key: Any) -> Any:
        value = self._function(key)
        if len(key) <= _LONGEST:
            if len(self) >= self._size:
                self.clear()
            self[key] = value
        return value
