"""How fairseq is patched: for what is ours alone, if it is what the patch was made for, and not by an import.

Modules list their patches by `patches` and `patch`. `install` makes them all, for the rest of a process that trains;
`patched` makes those that `only_runs` does not keep for training, and takes them back.
"""

import contextlib
import functools
import inspect
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import fairseq

from tupe.util import UserError

_LOCK = threading.RLock()
_ABSENT = object()
#: The functions that make the patches, and whether they are for runs alone.
_PATCHES: list[tuple[Callable[[], None], bool]] = []
#: What was there before, in order: owner, name, value.
_BEFORE: list[tuple[Any, str, Any]] = []


class _Users:
    """Counts who needs the patches now, in all threads."""

    now = 0
    installed = False


def patch(change: Callable[[], None], only_runs: bool = False) -> Callable[[], None]:
    """Decorator: `change()` patches fairseq, by `put`, once fairseq is patched; at once if it is already."""
    with _LOCK:
        if _Users.installed or (_Users.now and not only_runs):
            change()
        _PATCHES.append((change, only_runs))
    return change


#: Decorator, as `patch`, of what `install` alone does.
only_runs = functools.partial(patch, only_runs=True)


def put(owner: Any, name: str, value: Any) -> None:
    """Set `owner.name` until the patches are taken back."""
    _BEFORE.append((owner, name, vars(owner).get(name, _ABSENT)))
    setattr(owner, name, value)


def install() -> None:
    """Patch fairseq for the rest of the process, once.

    Raises:
        UserError: if the installed fairseq is not the one that the patches were made for.
    """
    with _LOCK:
        if _Users.installed:
            return
        for change, for_runs in _PATCHES:
            if for_runs or not _Users.now:
                change()
        _Users.installed = True


@contextlib.contextmanager
def patched() -> Iterator[None]:
    """Patch fairseq within the block, and leave it as it was: for what reads checkpoints and data outside of a run."""
    try:
        with _LOCK:
            _Users.now += 1
            if _Users.now == 1 and not _Users.installed:
                for change, for_runs in _PATCHES:
                    if not for_runs:
                        change()
        yield
    finally:
        with _LOCK:
            _Users.now -= 1
            if not _Users.now and not _Users.installed:
                while _BEFORE:
                    owner, name, before = _BEFORE.pop()
                    delattr(owner, name) if before is _ABSENT else setattr(owner, name, before)


def patches(owner: Any, name: str, takes: str, only_for: Callable[..., bool] | None = None) -> Callable:
    """Decorator of `around(original)`, as `wrap`, that acts once fairseq is patched."""

    def decorate(around: Callable) -> Callable:
        patch(lambda: wrap(owner, name, takes, around, only_for))
        return around

    return decorate


def wrap(owner: Any, name: str, takes: str, around: Callable, only_for: Callable[..., bool] | None = None) -> None:
    """Let the result of `around(original)` become `owner.name`. Wrapping a second time changes nothing.

    Args:
        owner: a module or class of fairseq.
        name: of a function there.
        takes: its first parameters, separated by spaces.
        around: given the function, returns what is called in its place.
        only_for: given the function's arguments, whether the patch acts; where it does not, fairseq's own is called.
            Without it, the patch must change nothing that works without it.
    """

    original = check(owner, name, takes)
    label = f"{around.__module__}.{around.__qualname__}"
    if label in getattr(original, "patched_by", ()):
        return
    inside = around(original)

    @functools.wraps(original)
    def patched_function(*args: Any, **kwargs: Any) -> Any:
        acts = only_for is None or only_for(*args, **kwargs)
        return (inside if acts else original)(*args, **kwargs)

    patched_function.patched_by = (*getattr(original, "patched_by", ()), label)
    put(owner, name, patched_function)
    for where, module in list(sys.modules.items()) if inspect.ismodule(owner) else ():
        if where.startswith("fairseq") and getattr(module, name, None) is original:  # it imported the function itself
            put(module, name, patched_function)


def check(owner: Any, name: str, takes: str) -> Callable:
    """Return `owner.name`, a function of fairseq, if its first parameters are `takes`."""
    original = getattr(owner, name, None)
    found = list(inspect.signature(original).parameters) if callable(original) else []
    if found[: len(takes.split())] != takes.split():
        raise _differs(f"{_name(owner)}.{name}({', '.join(takes.split())}, ...)", f"({', '.join(found)})")
    return original


def overriding(base: type, *own: str) -> Callable[[type], type]:
    """Class decorator: refuse a fairseq whose class `base` lacks a method that is overridden, or takes others first.

    `own` are the methods that the class adds, which are not checked.
    """

    def checked(overrides: type) -> type:
        for name, method in vars(overrides).items():
            if inspect.isfunction(method) and name not in own:
                parameters = inspect.signature(method).parameters.values()
                check(base, name, " ".join(each.name for each in parameters if each.kind is each.POSITIONAL_OR_KEYWORD))
        return overrides

    return checked


class Overlay:
    """A library with some attributes replaced, for the one module of fairseq that gets it; others see the original."""

    def __init__(self, library: Any, **replacements: Any) -> None:
        self._library = library
        self.__dict__.update(replacements)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._library, name)


def overlay(module: Any, library: str, used_in: str, **replacements: Any) -> Overlay:
    """Make `module.library` with replacements.

    Args:
        module: of fairseq.
        library: the name by which it knows a library, such as `np`.
        used_in: a function or `Class.method` of the module that uses the library and every name that is replaced.
    """
    function = functools.reduce(lambda part, name: getattr(part, name, None), used_in.split("."), module)
    used = _names(getattr(inspect.unwrap(function), "__code__", None)) if function is not None else set()
    unused = {library, *replacements} - used
    if unused:
        raise _differs(f"{module.__name__}.{used_in} with {library}.{', '.join(replacements)}", "another one")
    return Overlay(getattr(module, library), **replacements)


@contextlib.contextmanager
def replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    """Let `owner.name` be `value` within the block."""
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
    return UserError(
        f"the plugin patches {expected}, but the installed fairseq {fairseq.__version__} has {found}: install "
        "fairseq-fixed 0.12.3.1"
    )
