"""Cache of bounded memory for functions of words, of which a text has few different ones."""

from collections.abc import Callable
from typing import Any

_LONGEST = 64


class Memo(dict):
    """Dictionary in which `memo[key]` is `function(key)`, computed once as long as it is kept.

    `map(memo.__getitem__, keys)` runs no Python code for keys that are kept. When there are `size` of them, all are
    forgotten. A key with a `length` above 64 is never kept, since it hardly comes again.
    """

    def __init__(self, function: Callable[[Any], Any], size: int = 1 << 18, length: Callable[[Any], int] = len) -> None:
        super().__init__()
        self._function, self._size, self._length = function, size, length

    def __missing__(self, key: Any) -> Any:
        value = self._function(key)
        if self._length(key) <= _LONGEST:
            if len(self) >= self._size:
                self.clear()
            self[key] = value
        return value
