"""Registry of terms: a module registers a class, and its name becomes a choice of the models.

    @register_relative("mine", mine_size="what --mine-size says")
    class Mine(RelativeTerm):
        def __init__(self, num_heads: int, max_positions: int, *, mine_size: int = 5) -> None: ...

makes `--relative mine --mine-size 7` a choice, under Hydra `model.relative=mine model.mine_size=7`. The names of this
package's terms stand in `CHOICES` of `tupe.systems`. A module outside must be imported before the plugin; `--user-dir`
does both (examples/own_term). Loading a checkpoint that names a term imports nothing.
"""

import inspect
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from torch import nn

from tupe.errors import UserError
from tupe.position.terms import Term
from tupe.systems import CHOICES


class Option(NamedTuple):
    """Default and help of a term's keyword argument that is also a field of the configuration."""

    default: Any
    help: str


class Registered(NamedTuple):
    """A registered class, with those of its keyword arguments that are fields of the configuration."""

    term: Callable[..., Term]
    options: dict[str, Option]


#: `absolute` or `relative` -> name -> the class registered under it.
REGISTRY: dict[str, dict[str, Registered]] = {"absolute": {}, "relative": {}}

#: Whether `freeze` has been called: terms registered later would be no choices.
_read = False


def register_absolute(name: str, **options: str) -> Callable[[type[nn.Module]], type[nn.Module]]:
    """Return a decorator that registers a `Term` as `absolute=name`, with the arguments of `register_relative`."""
    return _register("absolute", name, options)


def register_relative(name: str, **options: str) -> Callable[[type[nn.Module]], type[nn.Module]]:
    """Return a decorator that registers a `Term` as `relative=name`.

    A model calls the class with the number of heads, the number of positions, and the options. It also passes those of
    the following arguments that the class has: `layer_heads`, the heads of one layer; `embed_dim` and `head_dim`, the
    widths of the model and of a head; `sharing`, who shares the term; `bidirectional`, false in a decoder, where no key
    comes after the query.

    Args:
        name: lower-case letters, digits and underscores.
        options: help of each keyword argument that becomes a field of the configuration; it needs a default.

    Raises:
        UserError: for a name that is taken, for an option that is no such argument or has another default in another
            term, and after `tupe.models` has been imported.
    """
    return _register("relative", name, options)


def _register(side: str, name: str, options: dict[str, str]) -> Callable[[type[nn.Module]], type[nn.Module]]:
    if not isinstance(name, str):
        raise UserError(
            f"register_{side} takes the name of a choice, but got {name!r:.60}: write @register_{side}('mine')"
        )

    def register(term: type[nn.Module]) -> type[nn.Module]:
        if not isinstance(term, type):
            raise UserError(f"register_{side}({name!r:.60}) decorates a class of a position term, but got {term!r:.60}")
        found = REGISTRY[side].get(name)
        if found is not None and _path(found.term) == _path(term):  # its module was imported again
            return term
        taken = found is not None or (name in CHOICES[side] and not _is_built_in(term))
        if _read:
            raise UserError(
                f"{side}={name} is registered after tupe.models was imported, whose flags are made: import "
                f"{term.__module__} first, or give it as --user-dir and let it import tupe.plugin at its end"
            )
        if not re.fullmatch("[a-z][a-z0-9_]*", name) or taken:
            raise UserError(
                f"{side}={name if taken else repr(name)[:60]} is {'taken' if taken else 'no name'}: register "
                f"{term.__qualname__} under another, of lower-case letters, digits and underscores"
            )
        arguments, others = inspect.signature(term).parameters, registered_options()
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
        REGISTRY[side][name] = Registered(
            term, {option: Option(arguments[option].default, text) for option, text in options.items()}
        )
        return term

    return register


def _path(kind: Any) -> tuple[str, str]:
    return kind.__module__, kind.__qualname__


def _is_built_in(term: Any) -> bool:
    return term.__module__.startswith("tupe.position.")


def registered_options() -> dict[str, Option]:
    """Return the options of all registered terms, by name."""
    return {name: o for side in REGISTRY.values() for found in side.values() for name, o in found.options.items()}


def freeze() -> tuple[list[str], list[str], dict[str, Option]]:
    """Close the registry; return the names of absolute and relative terms from outside this package, and all options.

    The configuration of the models is made from these.
    """
    global _read
    _read = True
    absolute, relative = ([name for name in side if name not in CHOICES[of]] for of, side in REGISTRY.items())
    return absolute, relative, registered_options()


def registered_folders() -> list[Path]:
    """Return the folders of other packages that have registered terms."""
    terms = (found.term for side in REGISTRY.values() for found in side.values())
    names = {term.__module__.partition(".")[0] for term in terms if not _is_built_in(term)}
    files = (getattr(sys.modules.get(name), "__file__", None) for name in names)
    return [Path(file).resolve().parent for file in files if file]


def refuse_unregistered(where: object, config: type, value: Callable[[str], Any]) -> None:
    """Raise `UserError` if a checkpoint names a term that is not registered here. It is never imported by its name.

    Args:
        where: the checkpoint, as the message names it.
        config: the dataclass of its model.
        value: function from the name of a field to its value in the checkpoint.
    """
    for side in ("absolute", "relative"):
        field, name = config.__dataclass_fields__.get(side), value(side)
        if field is None or not isinstance(name, str) or not re.fullmatch("[a-z][a-z0-9_]*", name):
            continue
        if name not in [choice.value for choice in field.type]:
            raise UserError(
                f"{where} has {side}={name:.60}, a term that is not registered here: give the folder of the module "
                "that registers it as --user-dir (to `tupe` as the environment variable TUPE_USER_DIR)"
            )
