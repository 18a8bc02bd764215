"""Registry of terms: a class registered under a name becomes a choice of the models.

    @register_relative("mine", mine_size="help of --mine-size")
    class Mine(nn.Module):
        def __init__(self, num_heads: int, *, mine_size: int = 5) -> None: ...
        def forward(self, distance: Tensor) -> Tensor: ...  # (D,) -> (H, D)

makes `--relative mine --mine-size 7` a choice, in Hydra `model.relative=mine model.mine_size=7`. Import your own module
before the plugin, as `--user-dir` does (examples/own_term). A constructor receives the arguments that it names, from
the model's fields and from `tupe.encoder.build.arguments`:

    num_heads         `H`, heads with parameters of their own; those of all layers if layers share nothing
    max_positions     the longest input, `n`
    bidirectional     false in a decoder, where no key comes after the query
    embed_dim, head_dim, layer_heads and others
"""

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

from torch import nn

Decorator = Callable[[type[nn.Module]], type[nn.Module]]


class Registered(NamedTuple):
    """A registered class, and the default and help of each keyword argument that is a field of a model."""

    term: type[nn.Module]
    options: dict[str, tuple[Any, str]]


#: `absolute` or `relative` -> name -> the class registered under it.
REGISTRY: dict[str, dict[str, Registered]] = {"absolute": {}, "relative": {}}


def register(kind: str, name: str, /, **options: str) -> Decorator:
    """Return a decorator that registers a class as `kind=name`.

    `options` maps keyword arguments to their help. They become fields of the configuration, so they need defaults.
    """

    def decorate(term: type[nn.Module]) -> type[nn.Module]:
        found = REGISTRY[kind].get(name)
        free = found is None or found.term.__qualname__ == term.__qualname__  # or its module was imported again
        assert free, f"{kind}={name} is taken: register {term.__qualname__} under another name"
        arguments = inspect.signature(term).parameters
        named = {option: (arguments[option].default, text) for option, text in options.items()}
        REGISTRY[kind][name] = Registered(term, named)
        return term

    return decorate


#: Decorators for classes that map a length to two factors (absolute), or distances to values (relative).
register_absolute, register_relative = partial(register, "absolute"), partial(register, "relative")


def build_term(kind: str, name: str, arguments: Mapping[str, Any]) -> nn.Module:
    """Build the term registered under `name`, with the `arguments` that its constructor names."""
    term = REGISTRY[kind][name].term
    takes = inspect.signature(term).parameters
    return term(**{argument: value for argument, value in arguments.items() if argument in takes})


def registered_options() -> dict[str, tuple[Any, str]]:
    """Return the default and the help of all options of registered terms, by name."""
    return {name: o for terms in REGISTRY.values() for found in terms.values() for name, o in found.options.items()}
