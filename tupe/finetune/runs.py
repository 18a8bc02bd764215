"""A run of a sweep, its data, its folder and its result."""

import hashlib
from pathlib import Path
from typing import NamedTuple

from hydra.core.override_parser.types import Quote, QuotedString

from tupe.data.manifest import checksums
from tupe.util import read_json

RESULT = "result.json"  # in the folder of a run
SWEEP = "sweep.json"  # in the folder of a sweep: its model and runs


class Run(NamedTuple):
    """A task fine-tuned with a learning rate and a seed."""

    task: str
    lr: float
    seed: int

    @property
    def folder(self) -> Path:
        """The folder, relative to that of the sweep."""
        return Path(self.task, f"lr_{self.lr:g}", f"seed_{self.seed}")

    def __str__(self) -> str:
        return f"{self.task}, lr {self.lr:g}, seed {self.seed}"


class Result(NamedTuple):
    """The content of `result.json`."""

    score: float  # the best checkpoint's, in percent; negative if lower is better
    metrics: dict[str, dict[str, float | None]]  # its metrics by development set or test set, `XQuAD/test-de`
    task: str = ""
    metric: str = ""  # the metric of `score`
    epoch: int = 0  # the best epoch, counted from 1
    lr: float = 0.0
    seed: int = 0

    def __str__(self) -> str:
        return f"{self.metric} {self.score:.2f} at epoch {self.epoch}"


def result(folder: Path) -> Result | None:
    """Return the result of a run, or None if it is not finished."""
    path = folder / RESULT
    return Result(**read_json(path)) if path.is_file() else None


def identity(data: Path) -> str:
    """Return one checksum of the files of a prepared task that a training reads."""
    return hashlib.sha256(repr(checksums(data)).encode()).hexdigest()


def quoted(value: str | Path) -> str:
    """Quote a value for Hydra's command line."""
    return QuotedString(str(value), Quote.single).with_quotes()
