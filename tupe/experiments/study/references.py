"""Curves of the study's final runs, which ship with the package, to compare other runs with."""

from pathlib import Path

import numpy as np

from tupe.analysis.curves import TrainingLog, losses
from tupe.errors import UserError
from tupe.experiments.study.design import read_design
from tupe.experiments.study.records import MADE_BY, Pretraining
from tupe.files import read
from tupe.user_dir import reference_dir

_STUDY = "cpu"


def reference(name: str) -> tuple[str, TrainingLog]:
    """Return the label and the mean validation losses over the seeds of a row of the study.

    Raises:
        UserError: for a row that has no record.
    """
    paths: dict[str, list[Path]] = {}
    for path in sorted(reference_dir().glob("*.seed_*.json")):
        paths.setdefault(path.name.partition(".")[0], []).append(path)
    if name not in paths:
        raise UserError(f"there is no reference {name}: --reference takes one of {', '.join(paths)}.")
    records = [read(path, Pretraining, MADE_BY) for path in paths[name]]
    curves = [dict(record.curve) for record in records]
    end = max(curves[0])
    hours = np.mean([record.training_seconds for record in records]) / 3600
    valid = {
        update: {
            "num_updates": update,
            "loss": float(np.mean([curve[update] for curve in curves])),
            "hours": hours * update / end,
        }
        for update in curves[0]
        if all(update in curve for curve in curves)
    }
    return f"{read_design(_STUDY).label(name)} of the study", TrainingLog({}, valid)


def beside(name: str, log: TrainingLog, label: str, other: TrainingLog) -> str:
    """Say the last validation loss of a run, and the reference's after as many updates."""
    found = losses(log)
    if not found:
        return f"{name}: not yet validated"
    update, loss = found[-1]
    updates, theirs = zip(*losses(other))
    at = min(max(update, updates[0]), updates[-1])
    when = "there" if at == update else f"after {at:,}"
    return f"{name}: {loss:.3f} bits after {update:,} updates; {label}: {np.interp(at, updates, theirs):.3f} {when}"
