"""Make checkpoints from checkpoints: average several, add positions, extract the discriminator of an ELECTRA."""

import dataclasses
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from tupe.checkpoints.foreign.names import WORDS
from tupe.checkpoints.load import model_config, open_checkpoint, write_state, write_weights
from tupe.models.summary import meta_model
from tupe.models.tupe import as_namespace
from tupe.patches.checkpoints import trained_with
from tupe.patches.safe_load import safe_load
from tupe.systems import ELECTRA
from tupe.util import UserError, check_new

_SAVED = (re.compile(r"checkpoint_\d+_(\d+)\.pt"), re.compile(r"checkpoint(\d+)\.pt"))  # by updates, by epochs


def last_checkpoints(folder: Path, number: int) -> list[Path]:
    """Return the newest `number` checkpoints of a run, by updates, or else by epochs."""
    found: list[Path] = []
    for pattern in _SAVED:
        saved = {int(match[1]): path for path in folder.glob("*.pt") if (match := pattern.fullmatch(path.name))}
        found = found or [saved[key] for key in sorted(saved)]
    if not 1 <= number <= len(found):
        raise UserError(f"{folder} has {len(found)} numbered checkpoints, not {number}. Change --last.")
    return found[-number:]


def average(checkpoints: list[Path], out: Path, *, last: int | None = None) -> str:
    """Write the mean of checkpoints of a run, in float32 and without the optimizer.

    The mean of a translator's last checkpoints translates better than its last checkpoint (Vaswani et al., 6.1).

    tupe convert average checkpoints/run average.pt --last 10

    Args:
        checkpoints: Checkpoints of a run, or with --last the folder of the run.
        out: New file.
        last: Average this many of the last checkpoints.

    Raises:
        UserError: the checkpoints are not of one run.
    """
    check_new(out)
    paths = checkpoints if last is None else [path for run in checkpoints for path in last_checkpoints(run, last)]
    total: dict[str, Tensor] = {}
    first: dict[str, Any] = {}
    for path in paths:
        state = safe_load(path)
        model, run = state["model"], _run(state["cfg"])
        first = first or run
        if other := sorted(name for name in {**first, **run} if first.get(name) != run.get(name)):
            raise UserError(f"{paths[0]} and {path} are not from the same run: they differ in {', '.join(other)}.")
        for name, tensor in model.items():
            total[name] = total.get(name, 0) + tensor.double()
    for name, tensor in model.items():
        if tensor.is_floating_point():
            model[name] = (total[name] / len(paths)).to(torch.promote_types(tensor.dtype, torch.float32))
    state["last_optimizer_state"] = None
    write_state(out, state)
    return f"average of {len(paths)} checkpoints: {out}"


def _run(cfg: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that all checkpoints of a run share, and that differ in another run."""
    saving, common = (cfg.get(part) or {} for part in ("checkpoint", "common"))
    model = {name: value for name, value in cfg["model"].items() if "dropout" not in name}  # it may change
    return {**model, **trained_with(cfg), "save_dir": saving.get("save_dir"), "seed": common.get("seed")}


def export_discriminator(checkpoint: Path, out: Path) -> str:
    """Write the discriminator of an electra_SYSTEM_SIZE as the plain model SYSTEM_SIZE.

    Fine-tuning selects the discriminator by itself. The new model has no language-model head, and pre-training starts
    a new one. Classification heads are kept.

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


def extend(tensor: Tensor, old: int, new: int, axes: tuple[int, ...], centered: bool | None, rule: str) -> Tensor:
    """Extend the `axes` of a parameter from `old` to `new` positions. Position 0, that of `[CLS]`, is unchanged.

    Axes of distances repeat the value of the farthest distance, on both sides if 0 is in the middle (`centered`). For
    axes of positions, `centered` is `None`.
    """
    for axis in axes:
        if centered is not None:
            below = old - 1 if centered else 0  # number of rows before that of distance 0
            distances = torch.arange(1 - new if centered else 0, new)
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
    """Extend a checkpoint to more positions than it was trained with. The optimizer's state is dropped.

    Relative terms extend, or repeat the farthest distance. Absolute terms repeat or interpolate their rows after [CLS].

    tupe convert positions checkpoints/tupe_a_base/checkpoint_last.pt 1024 longer.pt

    Args:
        checkpoint: Encoder or ELECTRA of this plugin.
        number: New number of positions, [CLS] included.
        out: New file.
        rule: How absolute positions are extended.
    """
    opened = open_checkpoint(checkpoint)
    old, config, longer = opened.config.max_positions, dataclasses.asdict(opened.config), dict(opened.weights)
    fields = {name: value for name, value in config.items() if name not in ("_name", "max_positions")}
    model = meta_model(config["_name"], len(longer[WORDS]), old, **fields)
    lines = []
    for prefix, module in model.named_modules(remove_duplicate=False):
        for part, (axes, centered) in getattr(module, "position_axes", {}).items():
            if (name := f"{prefix}.{part}") in longer:
                distances = prefix.endswith("position_bias.relative")
                longer[name] = extend(longer[name], old, number, axes, centered if distances else None, rule)
                lines.append(f"  {name} {[*longer[name].shape]}")
    longest = {"max_positions": number}  # `tokens_per_sample` stays that of training
    task = opened.task | (longest if "max_positions" in opened.task else {})
    write_weights(out, config | longest, longer, task, opened.state["cfg"].get("criterion"), opened.updates)
    lines = lines or ["  no parameter has a row per position: the relative terms extend as they are"]
    lines.append(f"continue training: tupe pretrain DATA --config continue --init-from {out}")
    return "\n".join([f"{old} to {number} positions: {out}", *lines])
