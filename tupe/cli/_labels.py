"""Arguments `[LABEL=]PATH`, which name the checkpoints or runs that a command compares."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tupe.util import UserError

if TYPE_CHECKING:
    from tupe.analysis.curves import TrainingLog
    from tupe.models.tupe import TupeLanguageModelEncoder

Labelled = tuple[str, Path]


def split_label(argument: str) -> Labelled:
    """Split `[LABEL=]PATH` into the label, which may be empty, and the path: the type of such an argument."""
    plain = "=" not in argument or Path(argument).exists()
    label, path = ("", argument) if plain else argument.split("=", 1)
    return label, Path(path)


def named(paths: list[Labelled]) -> list[Labelled]:
    """Return the paths with their labels, which default to the paths. Raise a `UserError` if two are the same."""
    found = [(label or str(path), path) for label, path in paths]
    check_names([name for name, _ in found])
    return found


def check_names(names: list[str]) -> None:
    """Raise a `UserError` if two names are the same."""
    for name in names:
        if names.count(name) > 1:
            raise UserError(f"two are called '{name}': give each its own name, as in LABEL=PATH.")


def open_encoders(checkpoints: list[Labelled]) -> list[TupeLanguageModelEncoder]:
    """Open the encoders of checkpoints. The label defaults to the model and its fields."""
    from tupe.analysis.checkpoint import open_encoder

    encoders = [open_encoder(path, label) for label, path in checkpoints]
    check_names([encoder.shown_as for encoder in encoders])
    return encoders


def read_runs(runs: list[Labelled]) -> dict[str, TrainingLog]:
    """Return the logs of runs by label, which defaults to the path."""
    from tupe.analysis.curves import read_log

    return {name: read_log(path) for name, path in named(runs)}
