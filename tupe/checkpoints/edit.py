"""Checkpoints made of checkpoints: the mean of several, a longer one, the discriminator of an ELECTRA."""

import dataclasses
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from tupe.checkpoints.load import model_config, open_checkpoint, write_state, write_weights
from tupe.models.summary import meta_model
from tupe.models.tupe import as_namespace
from tupe.patches.checkpoints import trained_with
from tupe.patches.safe_load import safe_load
from tupe.systems import ELECTRA
from tupe.util import UserError, check_new

_SAVED = (re.compile(r"checkpoint_\d+_(\d+)\.pt"), re.compile(r"checkpoint(\d+)\.pt"))  # by updates, by epochs
_WORDS = "encoder.sentence_encoder.embed_tokens.weight"
#: Makes those of named tensors longer that have positions.
Extend = Callable[[Mapping[str, Tensor]], dict[str, Tensor]]


def last_checkpoints(folder: Path, number: int) -> list[Path]:
    """Return the newest `number` checkpoints of a run, by updates, or else by epochs."""
    found: list[Path] = []
    for pattern in _SAVED:
        saved = {int(match[1]): path for path in folder.glob("*.pt") if (match := pattern.fullmatch(path.name))}
        found = found or [saved[key] for key in sorted(saved)]
    if not 1 <= number <= len(found):
        raise UserError(f"{folder} has {len(found)} checkpoints of updates or epochs, not {number}.")
    return found[-number:]


def average(checkpoints: list[Path], out: Path, *, last: int | None = None) -> str:
    """Write the mean of checkpoints of a run, in float32 and without the optimizer.

    The mean of a run's last checkpoints translates better than the last one (Vaswani et al., 6.1).

    tupe convert average checkpoints/run average.pt --last 10

    Args:
        checkpoints: Checkpoints of a run, or with --last the run's folder.
        out: New file.
        last: Take the last so many checkpoints of the folder.

    Raises:
        UserError: the checkpoints are not of one run.
    """
    check_new(out)
    paths = checkpoints if last is None else last_checkpoints(checkpoints[0], last)
    total: dict[str, Tensor] = {}
    first: dict[str, Any] = {}
    for path in paths:
        state = safe_load(path)
        model, run = state["model"], _run(state["cfg"])
        first = first or run
        if other := sorted(name for name in {**first, **run} if first.get(name) != run.get(name)):
            raise UserError(f"{paths[0]} and {path} are not of one run: they differ in {', '.join(other)}.")
        for name, tensor in model.items():
            if tensor.is_floating_point():
                tensor = tensor.to(torch.promote_types(tensor.dtype, torch.float32))
                tensor = tensor + total[name] if name in total else tensor
            total[name] = tensor
    shared: dict[tuple, Tensor] = {}  # a tensor that two names share is one in the file, too
    for name, tensor in model.items():
        at = (tensor.data_ptr(), tensor.shape, tensor.stride())
        mean = (total[name] / len(paths)).to(tensor.dtype) if tensor.is_floating_point() else tensor
        model[name] = shared.setdefault(at, mean)
    state["last_optimizer_state"] = None
    write_state(out, state)
    return f"average of {len(paths)} checkpoints: {out}"


def _run(cfg: Mapping[str, Any]) -> dict[str, Any]:
    """Return what all checkpoints of a run have in common and those of another do not."""
    task, saving, common = (cfg.get(part) or {} for part in ("task", "checkpoint", "common"))
    of_run = {"data": task.get("data"), "save_dir": saving.get("save_dir"), "seed": common.get("seed")}
    return {**cfg["model"], **trained_with(cfg), **of_run}


def export_discriminator(checkpoint: Path, out: Path) -> str:
    """Write the discriminator of an electra_SYSTEM_SIZE as the plain model SYSTEM_SIZE.

    Fine-tuning takes the discriminator by itself. The new model lacks a language-model head: a `TupeModel` that loads
    it keeps its own, untrained, and leaves the discriminator's head aside. Heads for classification stay.

    Args:
        checkpoint: Checkpoint of a model with a generator.
        out: New file.
    """
    opened = open_checkpoint(checkpoint)
    name = opened.config._name.removeprefix(ELECTRA)
    config = model_config(as_namespace(opened.config), name)
    weights = {key: tensor for key, tensor in opened.weights.items() if not key.startswith("generator.")}
    write_weights(out, config, weights, updates=opened.updates)
    return f"wrote {out}, a {name} without a language-model head"


class Axes(NamedTuple):
    """Which axes of a parameter run over positions, or over distances, whose middle is 0 where `centred`."""

    axes: tuple[int, ...]
    centred: bool
    distances: bool

    def extend(self, tensor: Tensor, old: int, new: int, rule: str) -> Tensor:
        """Extend a tensor from `old` to `new` positions. Position 0, that of `[CLS]`, is unchanged."""
        for axis in self.axes:
            if self.distances:  # repeat the value of the farthest distance
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
    """Stretch rows `1 .. old - 1` to `1 .. new - 1`, linearly between neighbors; row 0 is unchanged."""
    place = torch.cat([torch.zeros(1, dtype=torch.float64), torch.linspace(1, old - 1, new - 1, dtype=torch.float64)])
    below = place.floor().long().clamp(max=old - 1)
    above = (below + 1).clamp(max=old - 1)
    share = (place - below).view(-1, *[1] * (tensor.dim() - 1 - axis))
    ends = (tensor.index_select(axis, rows).double() for rows in (below, above))
    return torch.lerp(*ends, share).to(tensor.dtype)


def extend_positions(
    checkpoint: Path, number: int, out: Path, *, rule: Literal["repeat", "interpolate"] = "repeat"
) -> str:
    """Give a checkpoint more positions than it was trained with, also in its optimizer's state.

    Relative terms extend beyond their distances. Absolute terms repeat or interpolate their rows after
    [CLS]. Training resumes from the new checkpoint, with longer sequences from the beginning of the epoch.

    tupe convert positions checkpoints/tupe_a_base/checkpoint_last.pt 1024 longer.pt

    Args:
        checkpoint: Encoder or ELECTRA of this plugin.
        number: New number of positions, [CLS] included.
        out: New file.
        rule: What absolute positions do.
    """
    check_new(out)
    opened = open_checkpoint(checkpoint)
    state, old, weights = opened.state, opened.config.max_positions, opened.weights
    fields = dataclasses.asdict(opened.config)
    model = meta_model(fields.pop("_name"), len(weights[_WORDS]), fields.pop("max_positions"), **fields)
    found = {
        f"{prefix}.{name}": Axes(*axes, prefix.endswith("position_bias.relative"))
        for prefix, module in model.named_modules(remove_duplicate=False)
        for name, axes in getattr(module, "position_axes", {}).items()
        if f"{prefix}.{name}" in weights
    }

    def extended(named: Mapping[str, Tensor]) -> dict[str, Tensor]:
        longer = {name: axes.extend(named[name], old, number, rule) for name, axes in found.items() if name in named}
        return {**named, **longer}

    # the model has the shared parameters: fairseq saves these twice for a model on a GPU
    parameters = dict(model.named_parameters(remove_duplicate=False))
    once = {id(parameters.get(name, name)): name for name in reversed(weights)}
    own = {name: weights[name] for name in weights if name in once.values()}
    optimizer = _longer_optimizer(state.get("last_optimizer_state"), own, extended)
    state["model"] = extended(weights)
    state["last_optimizer_state"] = optimizer
    extra = state.get("extra_state") or {}
    for copy in ("ema", "ema_fp32_params"):
        if isinstance(extra.get(copy), dict):
            extra[copy] = extended(extra[copy])
    if isinstance(extra.get("train_iterator"), dict):  # of other blocks of text
        extra["train_iterator"]["iterations_in_epoch"] = 0
    state["cfg"]["model"]["max_positions"] = number
    task = state["cfg"].get("task") or {}
    for name in ("tokens_per_sample", "max_positions"):
        if isinstance(task.get(name), int):
            task[name] = number
    write_state(out, state)
    done = [f"{old} to {number} positions: {out}", *(f"  {name} {[*state['model'][name].shape]}" for name in found)]
    if not found:
        done.append("  no parameter has rows for positions: the relative terms continue")
    if optimizer is None:
        done.append("warning: the optimizer's state is not in it: resume with --reset-optimizer")
    return "\n".join(done)


def _longer_optimizer(saved: Any, weights: Mapping[str, Tensor], extended: Extend) -> dict[str, Any] | None:
    """Extend the state of an optimizer with one group of parameters; `None` if it is not of these `weights`."""
    if not saved or len(saved["param_groups"]) != 1:
        return None
    sizes = [weight.numel() for weight in weights.values()]
    slots = [dict(saved["state"][number]) for number in range(len(saved["state"]))]
    moments = {name for slot in slots for name, value in slot.items() if torch.is_tensor(value) and value.dim() > 0}
    kept = {name: [slot[name] for slot in slots] for name in moments}
    masters = {"fp32_params": saved["fp32_params"]} if "fp32_params" in saved else {}
    for tensors in (kept, masters):
        for name, each in tensors.items():
            if [tensor.numel() for tensor in each] not in (sizes, [sum(sizes)]):  # one for all, in mixed precision
                return None
            parts = torch.cat([tensor.reshape(-1) for tensor in each]).split(sizes)
            shaped = {key: part.view(weight.shape) for part, (key, weight) in zip(parts, weights.items())}
            longer = list(extended(shaped).values())
            tensors[name] = longer if len(each) == len(sizes) else [torch.cat([t.reshape(-1) for t in longer])]
    for number, slot in enumerate(slots):
        slot.update({name: each[number] for name, each in kept.items()})
    return {**saved, "state": dict(enumerate(slots)), **masters}
