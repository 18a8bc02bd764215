"""How a function of fairseq is wrapped, once, and how one of its modules sees a library with replacements."""

from __future__ import annotations

import functools
from typing import Any, Callable


def mends(owner: Any, name: str) -> Callable:
    """Decorator of `around(original)`, whose result becomes `owner.name`. Wrapping a second time changes nothing."""

    def wrap(around: Callable) -> Callable:
        original = getattr(owner, name)
        label = f"{around.__module__}.{around.__qualname__}"
        if label not in getattr(original, "mended_by", ()):
            mended = functools.wraps(original)(around(original))
            mended.mended_by = (*getattr(original, "mended_by", ()), label)
            setattr(owner, name, mended)
        return around

    return wrap


class Overlay:
    """A library with some attributes replaced, for the one module of fairseq that gets it; others see the original."""

    def __init__(self, library: Any, **replacements: Any) -> None:
        self._library = library
        self.__dict__.update(replacements)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._library, name)
