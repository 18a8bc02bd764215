"""Loss curves from the logs that fairseq writes with `common.log_format=json` (`--log-format json`)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple, Union

from tupe.analysis.figure import new_figure, save_figure
from tupe.errors import UserError

Records = dict[int, dict[str, float]]  # update -> name of a value -> value


class TrainingLog(NamedTuple):
    """The records of one run.

    train: means over a logging interval: `loss` (bits), ...
    valid: of the whole validation set: `loss` (bits), `ppl`, `accuracy` (percent), ...
    seconds: that the run took, interruptions aside.
    """

    train: Records
    valid: Records
    seconds: float


def read_log(path: Union[str, Path]) -> TrainingLog:
    """Reads Hydra's `hydra_train.log`, a `--log-file`, or what fairseq printed.

    Of an update that was logged twice, as it happens when a run was resumed, the later record counts.

    Raises:
        UserError: if the file is missing, or has no records of validation.
    """
    train: Records = {}
    valid: Records = {}
    seconds = 0.0
    try:
        lines = Path(path).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError as error:
        raise UserError(f"the training log {path} cannot be read: {error.strerror}.") from None
    for record in map(_record, lines):
        seconds = max(seconds, record.get("wall", 0), record.get("train_wall", 0))
        if "valid_loss" in record:
            values = {name[len("valid_") :]: value for name, value in record.items() if name.startswith("valid_")}
            valid[int(values["num_updates"])] = values
        elif "loss" in record:
            train[int(record["num_updates"])] = record
    if not valid:
        raise UserError(f"{path} has no JSON records of validation: train with common.log_format=json.")
    return TrainingLog(train, valid, seconds)


def _record(line: str) -> dict[str, float]:
    """The record in a line; empty if there is none, or only the beginning of one, where the run was killed."""
    try:
        return {name: float(value) for name, value in json.loads(line[line.index('{"epoch": ') :]).items()}
    except (ValueError, TypeError):
        return {}


def plot_training(logs: dict[str, TrainingLog], output: Union[str, Path], title: str = "Training") -> None:
    """Draws the losses of several runs against updates: thin in training, thick in validation.

    Args:
        logs: label of a run -> its log.
        output: the picture's file.
        title: stands above it.
    """
    figure = new_figure(7.5, 4.5)
    axes = figure.add_subplot(title=title, xlabel="updates", ylabel="loss (bits a prediction)")
    for number, (label, log) in enumerate(logs.items()):
        last = log.valid[max(log.valid)]["loss"]
        for records, kind, style in (
            (log.train, "training", {"linewidth": 0.8, "alpha": 0.5}),
            (log.valid, f"validation, {last:.3f} at the end", {"marker": "o", "markersize": 3}),
        ):
            updates = sorted(records)
            losses = [records[update]["loss"] for update in updates]
            axes.plot(updates, losses, color=f"C{number}", label=f"{label}: {kind}", **style)
    axes.grid(alpha=0.3)
    axes.legend()
    save_figure(figure, output)
