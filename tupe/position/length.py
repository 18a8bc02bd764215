"""Lengths: blocks of a term, the check of an input's length, and checkpoints with another number of positions."""

from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn

from tupe.errors import UserError
from tupe.position.arguments import check_whole


@dataclass(frozen=True)
class Span:
    """Block of a term's matrix: `length` rows (queries) from `query_offset` on, the first `num_keys` columns (keys)."""

    length: int
    num_keys: int
    query_offset: int

    @classmethod
    def of(cls, length: int, num_keys: int | None = None, query_offset: int = 0) -> "Span":
        """Make a span; `num_keys` is by default the positions up to the last query.

        Raises:
            UserError: for a number below 0, or one that is not whole.
        """
        check_whole("length", length)
        check_whole("query_offset", query_offset)
        if num_keys is not None:
            check_whole("num_keys", num_keys)
        return cls(length, query_offset + length if num_keys is None else num_keys, query_offset)

    @property
    def arguments(self) -> tuple[int, int, int]:
        """The positional arguments of `Term.forward`."""
        return self.length, self.num_keys, self.query_offset

    @property
    def end(self) -> int:
        """The number of positions that a term needs to have for this block."""
        return max(self.query_offset + self.length, self.num_keys)

    @property
    def distances(self) -> tuple[int, int]:
        """The distances `j - i` as `(first, stop)`; the first is from the last query to the first key."""
        return 1 - self.length - self.query_offset, self.num_keys - self.query_offset

    @property
    def queries(self) -> slice:
        return slice(self.query_offset, self.query_offset + self.length)

    @property
    def keys(self) -> slice:
        return slice(self.num_keys)


def take(tensor: Tensor, axis: int, rows: slice) -> Tensor:
    """Return the `rows` of `tensor` along `axis`.

    `torch.export` gets an `index_select`: a slice is contiguous only when it is the whole, so the exported graph would
    not hold for all lengths.
    """
    if torch.compiler.is_exporting():
        return tensor.index_select(axis, torch.arange(rows.start or 0, rows.stop, device=tensor.device))
    return tensor[(*(slice(None),) * axis, rows)]


def check_epsilon(epsilon: float) -> None:
    """Raise `UserError` unless a layer norm can add `epsilon` to its variance."""
    if not 0 <= epsilon <= 1:
        raise UserError(f"layer_norm_eps is {epsilon!r:.60}, but must be a number from 0 to 1")


def check_length(length: int, max_positions: float) -> None:
    """Raise `UserError` if `length` is no number of tokens, or more than `max_positions`."""
    check_whole("length", length)
    if length > max_positions:
        raise UserError(
            f"a sequence of {length} tokens is longer than the {max_positions} positions of the model: "
            "cut the input, or build the model with a larger max_positions"
        )


def fit_positions(module: nn.Module, name: str, *axes: int, centred: bool = False) -> None:
    """Make `load_state_dict` slice the parameter `name` of a longer checkpoint, and refuse a shorter one.

    `module.position_axes` records the axes for `tupe extend-positions`.

    Args:
        module: owns the parameter.
        name: name of the parameter within the module.
        axes: the axes that run over positions; slicing keeps the first positions.
        centred: the axes run over the distances `-(n-1) .. n-1` instead; slicing keeps the middle.

    Raises:
        UserError: if `module` has no such parameter, or that no such axes.
    """
    own = getattr(module, name, None) if isinstance(module, nn.Module) and isinstance(name, str) else None
    if not isinstance(own, Tensor) or any(axis not in range(own.ndim) for axis in axes):
        raise UserError(
            f"fit_positions takes a module, the name of its parameter and axes of that, but got {(name, *axes)!r:.60} "
            f"of {type(module).__name__}"
        )
    module._register_load_state_dict_pre_hook(partial(_fit, name, axes, centred), with_module=True)
    module.__dict__.setdefault("position_axes", {})[name] = axes, centred


def _fit(
    name: str, axes: tuple[int, ...], centred: bool, module: nn.Module, state: dict, prefix: str, *_: object
) -> None:
    saved, own = state.get(prefix + name), getattr(module, name)
    if saved is None or saved.ndim != own.ndim:
        return
    if centred and any(saved.shape[axis] % 2 == 0 for axis in axes):
        return  # values of another term, such as buckets
    for axis in axes:
        has, needs = saved.shape[axis], own.shape[axis]
        if has < needs:
            has, needs = ((rows + 1) // 2 if centred else rows for rows in (has, needs))
            raise UserError(
                f"the model has {needs} positions, but the checkpoint's `{prefix}{name}` has only {has}: "
                f"build the model with max_positions={has} or less, in pre-training task.tokens_per_sample={has} "
                "(fairseq's flag --tokens-per-sample), in translation max_source_positions and max_target_positions"
            )
        saved = saved.narrow(axis, (has - needs) // 2 if centred else 0, needs)
    state[prefix + name] = saved
