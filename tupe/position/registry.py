"""Registry of terms: a class is registered under a name, which becomes a choice of the models.

    @register_relative("mine", mine_size="what --mine-size says")
    class Mine(nn.Module):
        def __init__(self, num_heads: int, *, mine_size: int = 5) -> None: ...
        def forward(self, distance: Tensor) -> Tensor: ...  # (D,) -> (H, D)

makes `--relative mine --mine-size 7` a choice, under Hydra `model.relative=mine model.mine_size=7`. Import a module of
your own before the plugin, as `--user-dir` does (examples/own_term).
"""

import inspect
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from torch import nn


class Option(NamedTuple):
    """Default and help of a term's keyword argument that is also a field of the configuration."""

    default: Any
    help: str


class Registered(NamedTuple):
    """A registered class, with those of its keyword arguments that are fields of the configuration."""

    term: type[nn.Module]
    options: dict[str, Option]


#: `absolute` or `relative` -> name -> the class registered under it.
REGISTRY: dict[str, dict[str, Registered]] = {"absolute": {}, "relative": {}}


def register_absolute(name: str, **options: str) -> Callable[[type[nn.Module]], type[nn.Module]]:
    """Return a decorator that registers a class as `absolute=name`, with the arguments of `register_relative`."""
    return _register("absolute", name, options)


def register_relative(name: str, **options: str) -> Callable[[type[nn.Module]], type[nn.Module]]:
    """Return a decorator that registers a class as `relative=name`.

    A model passes those of its fields, and of the names in `tupe.encoder.build.arguments`, that the constructor has:
    `num_heads`, `max_positions`, `embed_dim`, `head_dim`, `layer_heads` (heads of one layer), `bidirectional` (false in
    a decoder, where no key comes after the query) and others.

    Args:
        name: lower-case letters, digits and underscores.
        options: help of each keyword argument that becomes a field of the configuration; it needs a default.
    """
    return _register("relative", name, options)


def _register(side: str, name: str, options: dict[str, str]) -> Callable[[type[nn.Module]], type[nn.Module]]:
    def register(term: type[nn.Module]) -> type[nn.Module]:
        found = REGISTRY[side].get(name)
        again = found is None or found.term.__qualname__ == term.__qualname__  # its module was imported again
        assert again, f"{side}={name} is taken: register {term.__qualname__} under another name"
        arguments = inspect.signature(term).parameters
        named = {option: Option(arguments[option].default, text) for option, text in options.items()}
        REGISTRY[side][name] = Registered(term, named)
        return term

    return register


def build_term(side: str, name: str, arguments: Mapping[str, Any]) -> nn.Module:
    """Build the term registered under `name`, with those of `arguments` that its constructor has."""
    term = REGISTRY[side][name].term
    takes = inspect.signature(term).parameters
    return term(**{argument: value for argument, value in arguments.items() if argument in takes})


def registered_options() -> dict[str, Option]:
    """Return the options of all registered terms, by name."""
    return {name: o for side in REGISTRY.values() for found in side.values() for name, o in found.options.items()}
