"""Curves of training from the JSON logs of fairseq (`common.log_format=json`)."""

import itertools
import json
import math
import re
from pathlib import Path
from typing import NamedTuple

from tupe.analysis.figure import color_of, new_figure, plain
from tupe.util import UserError

LOG = "hydra_train.log"
_DETECTS = "disc_auc"
Records = dict[int, dict[str, float]]  # update -> name of a value -> value

_JSON = re.compile(r'\{"epoch": [^{}]*\}$')  # also after a record that was cut off


class TrainingLog(NamedTuple):
    """The records of one run."""

    train: Records  # means over a logging interval: `loss` (bits; of a generator if there is one), `lr`, ...
    valid: Records  # of the whole validation set: `loss` (bits), `ppl`, `accuracy` (percent), ...
    seconds: float = 0.0  # the time of all updates, including repeated ones and the validations between updates


def read_log(path: str | Path) -> TrainingLog:
    """Read a run's folder, its `hydra_train.log`, a `--log-file`, or the printed output of fairseq.

    Where an update was logged twice, because the run was resumed, the later record counts.

    Raises:
        UserError: the file does not contain records of training.
    """
    path = Path(path)
    if path.is_dir():
        path = path / LOG
    train: Records = {}
    valid: Records = {}
    logged: list[dict[str, float]] = []
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        found = _JSON.search(line)
        record = {name: float(value) for name, value in json.loads(found[0]).items()} if found else {}
        if "valid_num_updates" in record:
            values = {name[len("valid_") :]: value for name, value in record.items() if name.startswith("valid_")}
            valid[int(values["num_updates"])] = values
        elif "num_updates" in record:
            train[int(record["num_updates"])] = record
            logged.append(record)
    if not train:
        raise UserError(f"{path} has no records of training. Set common.log_format=json and common.log_interval.")
    updates = [0, *sorted(train)]
    interval = {update: update - before for before, update in itertools.pairwise(updates)}
    # fairseq's `wall` is 0 in a run that was resumed, and the first update has an unknown duration
    timed = [(interval[int(record["num_updates"])], record) for record in logged if record.get("wps")]
    for record in (*train.values(), *valid.values()):
        record["loss"] = record.get("gen_loss", record["loss"])
    return TrainingLog(train, valid, sum(number * record["wpb"] / record["wps"] for number, record in timed))


def reaches(log: TrainingLog, loss: float) -> float | None:
    """Return the update at which the validation loss of a run is first `loss` or less, None if it never is.

    The loss is interpolated between validations. The TUPE paper makes this comparison with scores: TUPE reaches the
    GLUE average of the fully trained baselines after 30% of the updates.
    """
    before = None
    for update, found in losses(log):
        if found <= loss:
            if before is None:
                return float(update)
            first, higher = before
            return first + (update - first) * (higher - loss) / (higher - found)
        before = update, found
    return None


def losses(log: TrainingLog) -> list[tuple[int, float]]:
    """Return updates and finite validation losses."""
    found = sorted(log.valid.items())
    return [(update, record["loss"]) for update, record in found if math.isfinite(record["loss"])]


def plot_training(logs: dict[str, TrainingLog], against: str | None = None):
    """Draw loss and learning rate of labeled runs against updates.

    For an ELECTRA, the loss is the generator's, and the AUC of the discriminator is drawn below it. A line marks the
    last validation loss of the run `against`, and the legend has the fraction of the updates after which each other
    run reaches that loss.
    """
    figure = new_figure(7, 6, "Training")
    detects = any(_DETECTS in record for log in logs.values() for record in log.train.values())
    heights = [3, 2, 1] if detects else [3, 1]
    axes = figure.subplots(len(heights), sharex=True, height_ratios=heights)
    for number, (label, log) in enumerate(logs.items()):
        color = color_of(number)
        for ax, name in zip(axes[:-1], ["loss", _DETECTS]):
            ax.plot(*_curve(log.train, name), color=color, linewidth=0.8, alpha=0.5)
            ax.plot(*_curve(log.valid, name), color=color, marker="o", markersize=3)
        axes[-1].plot(*_curve(log.train, "lr"), color=color)
        axes[0].lines[-1].set_label(plain(f"{label}: {_caption(logs, label, against)}"))
    if against is not None:
        axes[0].axhline(losses(logs[against])[-1][1], color="0.4", linewidth=0.8, linestyle=":")
    axes[0].set_ylabel("loss (bits per prediction)\nthick: validation, thin: training")
    if detects:
        axes[1].set_ylabel("replaced tokens\n(AUC, percent)")
    axes[-1].set(ylabel="learning rate", xlabel="updates")
    axes[-1].set_ylim(bottom=0)
    axes[-1].ticklabel_format(axis="y", scilimits=(-2, 2))
    axes[-1].xaxis.set_major_formatter("{x:,.0f}")
    for ax in axes:
        ax.grid(alpha=0.3)
        ax.set_xlim(left=0)
    figure.legend(loc="outside lower center")
    return figure


def _curve(records: Records, name: str) -> tuple[list[int], list[float]]:
    ordered = {update: record[name] for update, record in sorted(records.items()) if name in record}
    return [*ordered], [*ordered.values()]


def _caption(logs: dict[str, TrainingLog], name: str, against: str | None) -> str:
    """Describe how a run ends, and after which fraction of its updates it reaches the final loss of `against`."""
    valid = logs[name].valid
    caption = "not yet validated"
    if valid:
        record = valid[max(valid)]
        found = f", AUC {record[_DETECTS]:.1f}" if _DETECTS in record else ""
        caption = f"{record['loss']:.3f} bits{found} after {max(valid):,} updates"
    if against not in (None, name):
        reached = reaches(logs[name], losses(logs[against])[-1][1])
        share = "not reached" if reached is None else f"after {reached / max(valid):.0%} of its updates"
        caption += f"; {against}'s end {share}"
    return caption
