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

    train: means over a logging interval: `loss` (bits), `wall` (seconds since the start), ...
    valid: of the whole validation set: `loss` (bits), `ppl`, `accuracy` (percent), ...
    """

    train: Records
    valid: Records


def read_log(path: Union[str, Path]) -> TrainingLog:
    """Reads Hydra's `hydra_train.log`, a `--log-file`, or what fairseq printed.

    Of an update that was logged twice, as it happens when a run was resumed, the later record counts.

    Raises:
        UserError: if the file is missing, or has no records of training or no records of validation.
    """
    path = Path(path)
    log = TrainingLog({}, {})
    try:
        with path.open(encoding="utf-8", errors="replace") as lines:
            for line in lines:
                _add(log, line)
    except OSError as error:
        raise UserError(f"the training log {path} cannot be read: {error.strerror}.") from None
    if not all(log):
        raise UserError(f"{path} has no JSON records of training and validation: train with common.log_format=json.")
    return log


def _add(log: TrainingLog, line: str) -> None:
    start = line.find('{"epoch": ')
    if start < 0:
        return
    try:
        record = {name: float(value) for name, value in json.loads(line[start:]).items()}
    except (ValueError, TypeError):  # a line cut short, where the run was killed
        return
    if "valid_loss" in record:
        values = {name.partition("valid_")[2]: value for name, value in record.items() if name.startswith("valid_")}
        log.valid[int(values["num_updates"])] = values
    elif "loss" in record and "num_updates" in record:
        log.train[int(record["num_updates"])] = record


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
