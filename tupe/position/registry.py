"""Terms of one's own: a module outside this package registers a class, and its name becomes a choice of a model.

    @register_relative("mine", mine_size="what --mine-size says")
    class Mine(RelativeTerm):
        def __init__(self, num_heads: int, max_positions: int, *, mine_size: int = 5) -> None: ...

is `--relative mine --mine-size 7`, and under Hydra `model.relative=mine model.mine_size=7`, once the user's module is
imported, before the plugin is: `--user-dir` does both (examples/own_term). A checkpoint names a term and never imports
one.
"""

import inspect
import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

from torch import nn

from tupe.errors import UserError
from tupe.position.terms import Term


class Option(NamedTuple):
    """A keyword argument of the term, which is a field of the configuration: its default and its help."""

    default: Any
    help: str


class OwnTerm(NamedTuple):
    """A class, called with `(num_heads, max_positions, **options)`, and its options."""

    term: Callable[..., Term]
    options: dict[str, Option]


#: side, absolute or relative -> name -> what was registered under it.
OWN: dict[str, dict[str, OwnTerm]] = {"absolute": {}, "relative": {}}

#: Whether the names have become fields and choices; later ones would not.
_read = False


def register_absolute(name: str, **options: str) -> Callable[[type[nn.Module]], type[nn.Module]]:
    """Decorator of a `Term` which is `absolute=name`; arguments as of `register_relative`."""
    return _register("absolute", name, options)


def register_relative(name: str, **options: str) -> Callable[[type[nn.Module]], type[nn.Module]]:
    """Decorator of a `Term` which is `relative=name` from then on.

    Args:
        name: lower-case letters, digits and underscores.
        options: keyword argument of the class -> its help, for each that has a default and shall be a field.

    Raises:
        UserError: for a name that is taken, an option that is no such argument or has another default in another term,
            or when models are there already.
    """
    return _register("relative", name, options)


def _register(side: str, name: str, options: dict[str, str]) -> Callable[[type[nn.Module]], type[nn.Module]]:
    def register(term: type[nn.Module]) -> type[nn.Module]:
        found = OWN[side].get(name)
        if found is not None and _path(found.term) == _path(term):  # its module was imported again
            return term
        if _read:
            raise UserError(
                f"{side}={name} is registered after tupe.models was imported, whose flags are made: import "
                f"{term.__module__} first, or give it as --user-dir and let it import tupe.plugin at its end"
            )
        if not re.fullmatch("[a-z][a-z0-9_]*", name) or found is not None:
            raise UserError(
                f"{side}={name} is {'taken' if found else 'no name'}: register {term.__qualname__} under another, "
                "of lower-case letters, digits and underscores"
            )
        arguments, others = inspect.signature(term).parameters, own_options()
        for option in options:
            if option not in arguments or type(arguments[option].default) not in (bool, int, float, str):
                raise UserError(
                    f"{option} is no argument of {term.__qualname__} with a number or a text as its default: "
                    f"register {side}={name} with the options that it has"
                )
            if option in others and others[option].default != arguments[option].default:
                raise UserError(
                    f"{option} is {others[option].default} in a term that is registered and "
                    f"{arguments[option].default} in {term.__qualname__}: give both one default, or two names"
                )
        OWN[side][name] = OwnTerm(
            term, {option: Option(arguments[option].default, text) for option, text in options.items()}
        )
        return term

    return register


def _path(kind: Any) -> tuple[str, str]:
    return kind.__module__, kind.__qualname__


def own_options() -> dict[str, Option]:
    """The options of all registered terms, by name."""
    return {name: option for side in OWN.values() for own in side.values() for name, option in own.options.items()}


def read_own() -> tuple[list[str], list[str], dict[str, Option]]:
    """Names of the absolute and of the relative terms, and all options, for a configuration to be made of them.

    From then on nothing can be registered.
    """
    global _read
    _read = True
    return list(OWN["absolute"]), list(OWN["relative"]), own_options()


def own_folders() -> list[Path]:
    """The folders of the packages that have registered terms."""
    names = {own.term.__module__.partition(".")[0] for side in OWN.values() for own in side.values()}
    files = (getattr(sys.modules.get(name), "__file__", None) for name in names)
    return [Path(file).resolve().parent for file in files if file]


def refuse_unknown(where: object, side: str, name: object, known: Iterable[str]) -> None:
    """Raises `UserError` if a checkpoint has a term by a name that is not `known`: no name makes us import anything."""
    if isinstance(name, str) and re.fullmatch("[a-z][a-z0-9_]*", name) and name not in known:
        raise UserError(
            f"{where} has {side}={name:.60}, a term that is not registered here: give the folder of the module that "
            "registers it as --user-dir (to `tupe` as the environment variable TUPE_USER_DIR)"
        )
