"""A run of a sweep: its folder, its result, and why it failed."""

import shutil
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path

from tupe.util import read_json, remove_parts

LOG, RESULT, FAILED = "log", "result.json", "failed.json"  # in the folder of a run
PREDICTIONS = "predictions"  # of the test sets by language


@dataclass(frozen=True)
class Run:
    """A task fine-tuned with a learning rate and a seed."""

    task: str  # the name of a folder
    lr: float
    seed: int

    @property
    def folder(self) -> Path:
        """Return the folder, relative to that of the sweep."""
        return Path(self.task, f"lr_{self.lr:g}", f"seed_{self.seed}")

    def __str__(self) -> str:
        return f"{self.task}, lr {self.lr:g}, seed {self.seed}"


def grid(tasks: list[str], lrs: list[float], seeds: list[int]) -> list[Run]:
    """Return a run for each combination."""
    return [Run(*combination) for combination in product(tasks, lrs, seeds)]


@dataclass(frozen=True)
class Result:
    """`result.json` of a finished run."""

    score: float  # of the best epoch, percent
    # all metrics of that epoch by development set, and of the best checkpoint by test set, as in `XQuAD/test-de`
    metrics: dict[str, dict[str, float | None]] = field(default_factory=dict)
    task: str = ""
    metric: str = ""  # what `score` is
    epoch: int = 0  # the best, from 1
    max_epoch: int = 0
    model: str = ""
    lr: float = 0.0
    seed: int = 0
    data: str = ""
    pretrained: str | None = None  # the checkpoint that it started from
    checkpoint: str = ""  # of the best epoch

    def sentence(self, folder: Path) -> str:
        """Return the result in one line."""
        return (
            f"{self.metric} {self.score:.2f} at epoch {self.epoch} ({self.model}, lr {self.lr:g}, seed {self.seed}); "
            f"outputs in {folder}"
        )


def result(folder: Path) -> Result | None:
    """Return the result of a run; None if it is not finished."""
    path = folder / RESULT
    return Result(**read_json(path)) if path.is_file() else None


def failure(folder: Path) -> str | None:
    """Return why a run failed; None if it did not."""
    path = folder / FAILED
    return read_json(path)["reason"] if path.is_file() else None


def clear(folder: Path) -> None:
    """Remove the files of an unfinished run from its folder, and no other files."""
    remove_parts(folder)
    for pattern in (LOG, RESULT, FAILED, "hydra_train.log", "checkpoint*.pt", "crash.pt", "settings.json"):
        for path in folder.glob(pattern):
            path.unlink()
    for name in (".hydra", PREDICTIONS):
        shutil.rmtree(folder / name, ignore_errors=True)
