"""Checks of the parts of a `PositionBias`: each is of its kind, and together they have a meaning."""

import inspect

from torch import nn

from tupe.errors import UserError
from tupe.position.absolute import UntiedAbsolute
from tupe.position.arguments import shown
from tupe.position.deberta import DisentangledRelative, RelativeEmbeddings
from tupe.position.reset import Reset
from tupe.position.rotary import Rotary
from tupe.position.shaw import ShawRelative
from tupe.position.terms import Term


def check_parts(absolute: object, relative: object, reset: object, rotation: object, embeddings: object) -> None:
    """Raise a `UserError` for a part that is not of its kind, such as a name or a class in place of a term."""
    for name, term in (("absolute", absolute), ("relative", relative)):
        if term is None:
            continue
        said = f"{name}= of PositionBias is {shown(term)}"
        if not isinstance(term, nn.Module):
            raise UserError(f"{said}, but must be a position term, such as BucketedRelative(num_heads)")
        if isinstance(term, Rotary):
            raise UserError(f"{said}, which turns queries and keys: give it as rotation=")
        if isinstance(term, (DisentangledRelative, ShawRelative)):
            raise UserError(f"{said}, which asks the words of each layer: leave it out, and call it in the layers")
        if not takes(term):
            raise UserError(
                f"{said}, whose forward does not take (length, num_keys, query_offset), so it is no position term"
            )
    for name, part, kind in (
        ("reset", reset, Reset), ("rotation", rotation, Rotary), ("embeddings", embeddings, RelativeEmbeddings)
    ):  # fmt: skip
        if part is not None and not isinstance(part, kind):
            raise UserError(f"{name}= of PositionBias is {shown(part)}, but must be a {kind.__name__}(...)")


def takes(term: Term) -> bool:
    """Tell whether `forward` of a term takes a length, a number of keys and an offset."""
    try:
        inspect.signature(term.forward).bind(1, 1, 0)
    except TypeError:
        return False
    except ValueError:  # a forward that has no signature
        pass
    return True


def check_combination(
    absolute: Term | None,
    relative: Term | None,
    reset: Reset | None,
    rotation: Rotary | None,
    *,
    cross: bool,
    num_terms: int | None,
) -> None:
    """Raise a `UserError` for parts that have no meaning together; see `PositionBias`."""
    if isinstance(relative, UntiedAbsolute):  # as such it would not count in `num_terms`
        raise UserError("UntiedAbsolute is an absolute term: give it before the relative one, or by absolute=")
    if cross and not isinstance(absolute, UntiedAbsolute):
        raise UserError("cross terms need the untied absolute term")
    if reset is not None:
        _check_reset(reset, absolute, relative, cross)
    check_heads(*filter(None, (getattr(part, "num_heads", None) for part in (absolute, relative, reset))))
    num_keys = getattr(absolute, "num_keys", None)
    if num_keys is not None and any(part is not None for part in (relative, rotation, reset)):
        raise UserError(
            "relative and rotary positions need a key for each position, and so does the [CLS] reset, but the "
            f"absolute term has num_keys={num_keys} mixtures of keys: leave them out, or num_keys"
        )
    if num_terms is not None and num_terms < 1:
        raise UserError(
            f"num_terms is {num_terms!r:.60}, but a logit sums 1 product or more: leave it out, or give more"
        )


def _check_reset(reset: Reset, absolute: Term | None, relative: Term | None, cross: bool) -> None:
    """Raise a `UserError` for a reset that has nothing to reset, or whose parameters do not fit the terms."""
    if cross or (absolute is None and relative is None):
        raise UserError(
            "the [CLS] reset needs a content-free correlation, absolute without cross terms or relative: "
            "leave out the reset (a model: reset=none) or choose such a term"
        )
    if reset.vectors is not None:
        if not isinstance(absolute, UntiedAbsolute):
            raise UserError("the reset's theta has vectors only with the untied absolute term: give Reset no embed_dim")
        theirs = absolute.num_heads, absolute.table.weight.shape[1]
        if theirs != (reset.num_heads, reset.vectors.shape[1]):
            raise UserError(
                f"Reset has {reset.num_heads} heads and vectors of width {reset.vectors.shape[1]}, but the "
                f"absolute term, which projects them, has {theirs[0]} and {theirs[1]}: give Reset{theirs}"
            )
    if reset.convention == "release" and (reset.relative is None) != (relative is None):
        raise UserError(
            "the release's reset has relative values of its own exactly where there is a relative term: give Reset "
            f"relative={relative is not None}"
        )


def check_heads(*heads: int) -> None:
    """Raise a `UserError` for terms of different numbers of heads; one head is the same for all."""
    if any(number not in (1, max(heads)) for number in heads):
        raise UserError(
            f"the terms have {' and '.join(map(str, heads))} heads: build the absolute and the relative term and the "
            "reset with the same num_heads"
        )
