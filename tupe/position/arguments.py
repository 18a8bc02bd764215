"""Checks of arguments: those of a constructor by their annotations and names."""

import functools
import inspect
import typing
from collections.abc import Callable
from numbers import Real
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from tupe.errors import UserError

Init = TypeVar("Init", bound=Callable[..., None])


def shown(value: object) -> str:
    """Show any value in one line: a tensor or array by its shape, a module by its class."""
    if isinstance(value, Tensor):
        return f"a tensor {tuple(value.shape)}"
    if getattr(value, "ndim", 0):
        return f"a {type(value).__name__} {value.shape}"  # pyright: ignore[reportAttributeAccessIssue]
    return f"a {type(value).__name__}" if isinstance(value, nn.Module) else f"{' '.join(repr(value).split()):.60}"


def _is_whole(value: Any) -> bool:
    """Tell whether a value is an index: an int, one of numpy's, the symbol of a graph, or a tensor of one."""
    if isinstance(value, Tensor):
        return value.ndim == 0 and not value.is_floating_point()
    return hasattr(value, "__index__") and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool) and value == value  # not NaN


#: An annotation -> what values of it are, and the test of one.
KINDS: dict[type, tuple[str, Callable[[Any], bool]]] = {
    int: ("a whole number", _is_whole),
    float: ("a number", _is_number),
    bool: ("True or False", lambda value: isinstance(value, bool)),
    str: ("a str", lambda value: isinstance(value, str)),
    type(None): ("None", lambda value: value is None),
}

#: Arguments that are sizes, in every term.
SIZES = ("max_positions", "embed_dim", "num_heads", "head_dim", "num_keys", "num_rows", "num_layers")


def check_whole(name: str, number: object, least: int = 0) -> None:
    """Raise `UserError` unless `number` is whole, and `least` or more; the symbols of a graph have no value yet."""
    if isinstance(number, int) and not isinstance(number, bool):
        wrong = number < least
    else:
        wrong = not _is_whole(number)
    if wrong:
        raise UserError(f"{name} is {shown(number)}, but must be a whole number, {least} or more")


def check_flags(**flags: object) -> None:
    """Raise `UserError` for a flag that is no bool, as `"no"`, which is true."""
    for name, flag in flags.items():
        if not isinstance(flag, bool):
            raise UserError(f"{name} is {flag!r:.60}, but must be True or False")


def check_tensors(like: Tensor | None = None, **named: object) -> None:
    """Raise `UserError` for what is no dense tensor, or lies on another device than `like`.

    A number, a tensor without axes, may be on any device that holds numbers.
    """
    for name, tensor in named.items():
        if not isinstance(tensor, Tensor):
            raise UserError(f"{name} is {shown(tensor)}, but must be a tensor")
        if tensor.is_nested:
            raise UserError(f"{name} is a nested tensor, but must be padded: give {name}.to_padded_tensor(0)")
        if tensor.layout != torch.strided:
            raise UserError(f"{name} is a tensor of {tensor.layout}, but must be dense: give {name}.to_dense()")
        if like is not None and tensor.device != like.device and (tensor.ndim or tensor.is_meta):
            raise UserError(f"{name} is on {tensor.device}, not on {like.device} as the others: move it there")


def check_types(init: Init) -> Init:
    """Decorate `__init__` of a term, which then raises `UserError` for an argument of another type than is annotated.

    Whole numbers called as one of `SIZES` must be 1 or more. Arguments whose annotations are not among `KINDS` are left
    to `__init__`.
    """
    annotations = {name: parameter.annotation for name, parameter in inspect.signature(init).parameters.items()}
    kinds = {name: typing.get_args(annotation) or (annotation,) for name, annotation in annotations.items()}
    tests = {name: [KINDS[kind] for kind in of] for name, of in kinds.items() if all(kind in KINDS for kind in of)}

    @functools.wraps(init)
    def checked(self: Any, *arguments: Any, **named: Any) -> None:
        for name, value in {**dict(zip([*kinds][1:], arguments)), **named}.items():
            if name in tests and not any(fits(value) for _, fits in tests[name]):
                said = " or ".join(words for words, _ in tests[name])
                raise UserError(f"{name} of {type(self).__name__} is {shown(value)}, but must be {said}")
            if name in SIZES and int in kinds.get(name, ()) and value is not None:
                check_whole(name, value, 1)
        init(self, *arguments, **named)

    return typing.cast(Init, checked)
