"""How a function of fairseq is wrapped: once, for what is ours alone, and only if it is what the mend was made for."""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Callable, Optional

from tupe.errors import UserError


def mends(owner: Any, name: str, takes: str, only_for: Optional[Callable[..., bool]] = None) -> Callable:
    """Decorator of `around(original)`, whose result becomes `owner.name`. Wrapping a second time changes nothing.

    Args:
        owner: a module or class of fairseq.
        name: of a function there.
        takes: its first parameters, separated by spaces.
        only_for: given the function's arguments, whether the mend acts; where it does not, fairseq's own is called.
            Without it, the mend must change nothing that works without it.

    Raises:
        UserError: if this fairseq has no such function.
    """

    def wrap(around: Callable) -> Callable:
        original = getattr(owner, name, None)
        found = list(inspect.signature(original).parameters) if callable(original) else []
        if found[: len(takes.split())] != takes.split():
            raise _differs(f"{_name(owner)}.{name}({', '.join(takes.split())}, ...)", f"({', '.join(found)})")
        label = f"{around.__module__}.{around.__qualname__}"
        if label in getattr(original, "mended_by", ()):
            return around
        inside = around(original)

        @functools.wraps(original)
        def mended(*args: Any, **kwargs: Any) -> Any:
            acts = only_for is None or only_for(*args, **kwargs)
            return (inside if acts else original)(*args, **kwargs)

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


def overlay(module: Any, library: str, used_in: str, **replacements: Any) -> Overlay:
    """`module.library` with replacements.

    Args:
        module: of fairseq.
        library: the name by which it knows a library, such as `np`.
        used_in: a function or `Class.method` of the module that uses the library and every name that is replaced.

    Raises:
        UserError: if that function does not.
    """
    function = functools.reduce(lambda part, name: getattr(part, name, None), used_in.split("."), module)
    used = _names(getattr(inspect.unwrap(function), "__code__", None)) if function is not None else set()
    unused = {library, *replacements} - used
    if unused:
        raise _differs(f"{module.__name__}.{used_in} with {library}.{', '.join(replacements)}", "another one")
    return Overlay(getattr(module, library), **replacements)


@contextlib.contextmanager
def replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    """`owner.name` is `value` within the block."""
    before = vars(owner)[name]
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)


def _names(code: Any) -> set[str]:
    if code is None:
        return set()
    inner = (constant for constant in code.co_consts if inspect.iscode(constant))
    return set(code.co_names).union(*map(_names, inner))


def _name(owner: Any) -> str:
    return owner.__name__ if inspect.ismodule(owner) else f"{owner.__module__}.{owner.__qualname__}"


def _differs(expected: str, found: str) -> UserError:
    installed = [f"{name} {found}" for name in ("fairseq-fixed", "fairseq") if (found := _version(name))]
    return UserError(
        f"the plugin mends {expected}, but the installed {' and '.join(installed) or 'fairseq'} has {found}: install "
        "fairseq-fixed 0.12.3.1, or before Python 3.11 fairseq 0.12.2"
    )


def _version(name: str) -> Optional[str]:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
