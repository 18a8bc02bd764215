"""Check the length of an input, and load checkpoints with more positions."""

from functools import partial

import torch
from torch import Tensor, nn


def take(tensor: Tensor, length: int) -> Tensor:
    """Return the first `length` rows of axis 1.

    For `torch.export` this is an `index_select`: a slice is contiguous only if it is the whole tensor, so the exported
    graph would not hold for all lengths.
    """
    if torch.compiler.is_exporting():
        return tensor.index_select(1, torch.arange(length, device=tensor.device))
    return tensor[:, :length]


def check_length(length: int, max_positions: float) -> None:
    """Raise `ValueError` if `length` exceeds `max_positions`, where a slice would silently be shorter."""
    if length > max_positions:
        raise ValueError(
            f"a sequence of {length} tokens is longer than the {max_positions} positions of the model: "
            "cut the input, or build the model with a larger max_positions"
        )


def fit_positions(module: nn.Module, name: str, *axes: int, centered: bool = False) -> None:
    """Make `load_state_dict` slice the parameter `name` of a longer checkpoint. A shorter one fails to load.

    `module.position_axes` records the axes for `tupe convert positions`.

    Args:
        module: owns the parameter.
        name: name of the parameter within the module.
        axes: the axes that run over positions; slicing keeps the first positions.
        centered: the axes run over the distances `-(n-1) .. n-1` instead; slicing keeps the middle.
    """
    module._register_load_state_dict_pre_hook(partial(_fit, name, axes, centered), with_module=True)
    module.__dict__.setdefault("position_axes", {})[name] = axes, centered


def _fit(
    name: str, axes: tuple[int, ...], centered: bool, module: nn.Module, state: dict, prefix: str, *_: object
) -> None:
    saved, own = state.get(prefix + name), getattr(module, name)
    if saved is None or saved.ndim != own.ndim:
        return
    if centered and any(saved.shape[axis] % 2 == 0 for axis in axes):
        return  # values of another term, such as buckets
    for axis in axes:
        has, needs = saved.shape[axis], own.shape[axis]
        if has < needs:
            return  # PyTorch reports the size mismatch
        saved = saved.narrow(axis, (has - needs) // 2 if centered else 0, needs)
    state[prefix + name] = saved
