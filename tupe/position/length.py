"""Lengths: blocks of a term, the check of an input's length, and checkpoints with another number of positions."""

from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn

from tupe.util import UserError


@dataclass(frozen=True)
class Span:
    """Block of a term's matrix: `length` rows (queries) from `query_offset` on, the first `num_keys` columns (keys)."""

    length: int
    num_keys: int
    query_offset: int

    @classmethod
    def of(cls, length: int, num_keys: int | None = None, query_offset: int = 0) -> "Span":
        """Make a span; `num_keys` is by default the positions up to the last query."""
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


def check_length(length: int, max_positions: float) -> None:
    """Raise `UserError` if `length` is more than `max_positions`: a slice of the table would be shorter in silence."""
    if length > max_positions:
        raise UserError(
            f"a sequence of {length} tokens is longer than the {max_positions} positions of the model: "
            "cut the input, or build the model with a larger max_positions"
        )


def fit_positions(module: nn.Module, name: str, *axes: int, centred: bool = False) -> None:
    """Make `load_state_dict` slice the parameter `name` of a longer checkpoint. A shorter one does not fit, as ever.

    `module.position_axes` records the axes for `tupe convert positions`.

    Args:
        module: owns the parameter.
        name: name of the parameter within the module.
        axes: the axes that run over positions; slicing keeps the first positions.
        centred: the axes run over the distances `-(n-1) .. n-1` instead; slicing keeps the middle.
    """
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
            return  # PyTorch refuses it
        saved = saved.narrow(axis, (has - needs) // 2 if centred else 0, needs)
    state[prefix + name] = saved
