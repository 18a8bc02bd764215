"""A checkpoint with more positions than it was trained with.

Terms of distances go on: buckets and clipped ones have no end, and of unbinned ones the value of the farthest distance
is repeated. Parameters with a row for each position (`tupe.position.length.fit_positions`: tables, DIET's factors, free
values) have their rows repeated or interpolated. Position 0 is `[CLS]`'s, which stays what it is.
"""

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from tupe.checkpoints.load import open_checkpoint
from tupe.models.summary import meta_model
from tupe.position import RelativeTerm

RULES = ("repeat", "interpolate")
_WORDS = "encoder.sentence_encoder.embed_tokens.weight"
Extend = Callable[[Mapping[str, Any]], dict[str, Any]]  # makes those of named tensors longer that have positions


class Axes(NamedTuple):
    """Which axes of a parameter run over positions, or over distances, whose middle is 0 where `centred`."""

    axes: tuple[int, ...]
    centred: bool
    distances: bool

    def extend(self, tensor: Tensor, old: int, new: int, rule: str) -> Tensor:
        """Make a tensor of `old` positions one of `new`."""
        for axis in self.axes:
            if self.distances:
                below = old - 1 if self.centred else 0  # how many rows are before that of distance 0
                distances = torch.arange(1 - new if self.centred else 0, new)
                tensor = tensor.index_select(axis, distances.clamp(-below, old - 1) + below)
            elif rule == "repeat":
                rows = torch.arange(new - 1).remainder(old - 1) + 1
                tensor = tensor.index_select(axis, torch.cat([torch.zeros(1, dtype=torch.int64), rows]))
            else:
                tensor = _interpolate(tensor, axis, old, new)
        return tensor


def _interpolate(tensor: Tensor, axis: int, old: int, new: int) -> Tensor:
    """Stretch rows `1 .. old - 1` to `1 .. new - 1`, between neighbours on a line; row 0 stays."""
    place = torch.cat([torch.zeros(1, dtype=torch.float64), torch.linspace(1, old - 1, new - 1, dtype=torch.float64)])
    below = place.floor().long().clamp(max=old - 1)
    above = (below + 1).clamp(max=old - 1)
    share = (place - below).view(-1, *[1] * (tensor.dim() - 1 - axis))
    ends = (tensor.index_select(axis, rows).double() for rows in (below, above))
    return torch.lerp(*ends, share).to(tensor.dtype)


class Extended(NamedTuple):
    """The new checkpoint, and what was done."""

    state: dict[str, Any]  # for `torch.save`
    old: int  # how many positions there were
    changed: list[str]  # the parameters that have become longer
    optimizer: bool  # whether its state went along


def extend_positions(checkpoint: str | Path, positions: int, rule: str = RULES[0]) -> Extended:
    """Give the model in `checkpoint` more positions; its optimizer state and the rest go along.

    The rule is to `repeat` the rows of the positions after `[CLS]`, or to `interpolate` between them. Training resumes
    from the checkpoint, with sequences of the new length from the beginning of the epoch.
    """
    opened = open_checkpoint(checkpoint)
    state, config = opened.state, opened.config
    old, weights = config.max_positions, opened.weights
    fields = {field.name: getattr(config, field.name) for field in dataclasses.fields(config)}
    model = meta_model(fields.pop("_name"), len(weights[_WORDS]), fields.pop("max_positions"), **fields)
    found = {
        f"{prefix}.{name}": Axes(*axes, isinstance(module, RelativeTerm))
        for prefix, module in model.named_modules(remove_duplicate=False)
        for name, axes in getattr(module, "position_axes", {}).items()
        if f"{prefix}.{name}" in weights
    }
    parameters = dict(model.named_parameters(remove_duplicate=False))

    def extended(named: Mapping[str, Any]) -> dict[str, Any]:
        return {
            name: found[name].extend(value, old, positions, rule) if name in found else value
            for name, value in named.items()
        }

    own = {name: weights[name] for name in _parameters(weights, parameters)}
    optimizer = _longer_optimizer(state.get("last_optimizer_state"), own, extended)
    state["model"] = extended(weights)
    state["last_optimizer_state"] = optimizer
    extra = state.get("extra_state") or {}
    for copy in ("ema", "ema_fp32_params"):
        if isinstance(extra.get(copy), dict):
            extra[copy] = extended(extra[copy])
    if isinstance(extra.get("train_iterator"), dict):  # of other blocks of text
        extra["train_iterator"]["iterations_in_epoch"] = 0
    state["cfg"]["model"]["max_positions"] = positions
    task = state["cfg"].get("task") or {}
    for name in ("tokens_per_sample", "max_positions"):
        if isinstance(task.get(name), int):
            task[name] = positions
    return Extended(state, old, list(found), optimizer is not None)


def _parameters(weights: Iterable[str], parameters: Mapping[str, Tensor]) -> list[str]:
    """Return the names of `weights` in the model's order, of a parameter that two share the first.

    The model says which do: fairseq copies each to the CPU or to float32 by itself, and saves it twice.
    """
    seen: dict[object, str] = {}
    for name in weights:
        seen.setdefault(id(parameters[name]) if name in parameters else name, name)
    return list(seen.values())


def _longer_optimizer(saved: Any, weights: Mapping[str, Tensor], extended: Extend) -> dict[str, Any] | None:
    """Extend the state of an optimizer with one group of parameters; `None` if it is not of these `weights`."""
    if not saved or len(saved["param_groups"]) != 1:
        return None
    try:
        slots = {number: dict(slot) for number, slot in saved["state"].items()}
        tensors = ((name, value) for slot in slots.values() for name, value in slot.items() if torch.is_tensor(value))
        for name in {name for name, value in tensors if value.dim() > 0}:  # the moments
            moments = _longer([slots[number][name] for number in range(len(slots))], weights, extended)
            for number, moment in enumerate(moments):
                slots[number][name] = moment
        masters = {"fp32_params": _longer(saved["fp32_params"], weights, extended)} if "fp32_params" in saved else {}
    except ValueError:
        return None
    return {**saved, "state": slots, **masters}


def _longer(tensors: Iterable[Tensor], weights: Mapping[str, Tensor], extended: Extend) -> list[Tensor]:
    """Extend a tensor for each of `weights`, or one of all, flat. Raise `ValueError` if they have other shapes."""
    tensors, shapes = list(tensors), [weight.shape for weight in weights.values()]
    sizes = [shape.numel() for shape in shapes]
    flat = len(tensors) == 1 != len(sizes) and tensors[0].dim() == 1
    if flat and sum(sizes) != tensors[0].numel():
        raise ValueError
    each = [t.view(shape) for t, shape in zip(tensors[0].split(sizes), shapes)] if flat else tensors
    if [t.shape for t in each] != shapes:
        raise ValueError
    longer = list(extended(dict(zip(weights, each))).values())
    return [torch.cat([t.reshape(-1) for t in longer])] if flat else longer
