"""Registry of terms: a module registers a class, and its name becomes a choice of the models.

    @register_relative("mine", mine_size="what --mine-size says")
    class Mine(RelativeTerm):
        def __init__(self, num_heads: int, max_positions: int, *, mine_size: int = 5) -> None: ...

makes `--relative mine --mine-size 7` a choice, under Hydra `model.relative=mine model.mine_size=7`. `CHOICES` of
`tupe.systems` has this package's terms. Import a module of your own before the plugin, as `--user-dir` does
(examples/own_term).
"""

import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from torch import nn

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
    """
    return _register("relative", name, options)


def _register(side: str, name: str, options: dict[str, str]) -> Callable[[type[nn.Module]], type[nn.Module]]:
    def register(term: type[nn.Module]) -> type[nn.Module]:
        found = REGISTRY[side].get(name)
        again = found is not None and found.term.__qualname__ == term.__qualname__  # its module was imported again
        taken = found is not None or (name in CHOICES[side] and not _is_built_in(term))
        assert again or not taken, f"{side}={name} is taken: register {term.__qualname__} under another name"
        arguments = inspect.signature(term).parameters
        named = {option: Option(arguments[option].default, text) for option, text in options.items()}
        REGISTRY[side][name] = Registered(term, named)
        return term

    return register


def _is_built_in(term: Any) -> bool:
    return term.__module__.startswith("tupe.position.")


def registered_options() -> dict[str, Option]:
    """Return the options of all registered terms, by name."""
    return {name: o for side in REGISTRY.values() for found in side.values() for name, o in found.options.items()}


def own_terms(side: str) -> list[str]:
    """Return the names of the terms of a side, `absolute` or `relative`, from outside this package."""
    return [name for name in REGISTRY[side] if name not in CHOICES[side]]


def registered_folders() -> list[Path]:
    """Return the folders of other packages that have registered terms."""
    terms = (found.term for side in REGISTRY.values() for found in side.values())
    names = {term.__module__.partition(".")[0] for term in terms if not _is_built_in(term)}
    files = (getattr(sys.modules.get(name), "__file__", None) for name in names)
    return [Path(file).resolve().parent for file in files if file]
