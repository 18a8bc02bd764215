"""One run of a sweep: where it lies, whether it is finished, and why it failed."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Optional, TypeVar

from tupe.errors import UserError
from tupe.files import checked, read, remove_unfinished

T = TypeVar("T")

LOG, RESULT, FAILED = "log", "result.json", "failed.json"  # in the folder of a run
PREDICTIONS = "predictions"  # of the test sets by language


@dataclass(frozen=True)
class Run:
    """A task fine-tuned with a learning rate and a seed."""

    task: str = checked(pattern="[A-Za-z0-9-]+")  # the name of a folder
    lr: float
    seed: int

    @property
    def folder(self) -> Path:
        """Where the run lies in the folder of its sweep."""
        return Path(self.task, f"lr_{self.lr:g}", f"seed_{self.seed}")

    def __str__(self) -> str:
        return f"{self.task}, lr {self.lr:g}, seed {self.seed}"


def grid(tasks: list[str], lrs: list[float], seeds: list[int]) -> list[Run]:
    """All combinations."""
    return [Run(*combination) for combination in product(tasks, lrs, seeds)]


@dataclass(frozen=True)
class Result:
    """`result.json` of a finished run.

    Attributes:
        score: of the best epoch, percent.
        metrics: all of that epoch, by development set, and of the best checkpoint by language, as in `XQuAD/test-de`.
        metric: what `score` is.
        epoch: the best, from 1.
        pretrained: the checkpoint that it started from.
        checkpoint: of the best epoch.
    """

    score: float
    metrics: dict[str, dict[str, Optional[float]]] = field(default_factory=dict)
    task: str = ""
    metric: str = ""
    epoch: int = 0
    max_epoch: int = 0
    model: str = ""
    lr: float = 0.0
    seed: int = 0
    data: str = ""
    pretrained: Optional[str] = None
    checkpoint: str = ""

    def sentence(self, folder: Path) -> str:
        """All of it in one line."""
        return (
            f"{self.metric} {self.score:.2f} at epoch {self.epoch} ({self.model}, lr {self.lr:g}, seed {self.seed}); "
            f"outputs in {folder}"
        )


@dataclass(frozen=True)
class Failure:
    """`failed.json` of a run that failed."""

    reason: str


def result(folder: Path) -> Optional[Result]:
    """What `result.json` of a finished run holds; None for a run that is not finished, or whose file is damaged."""
    return _read(folder / RESULT, Result)


def failure(folder: Path) -> Optional[str]:
    """Why a run failed; None for one that did not."""
    failed = _read(folder / FAILED, Failure)
    return failed and failed.reason


def clear(folder: Path) -> None:
    """Removes what an unfinished run has left in its folder, and nothing else."""
    remove_unfinished(folder)
    for pattern in (LOG, RESULT, FAILED, "hydra_train.log", "checkpoint*.pt", "crash.pt", ".tupe.json"):
        for path in folder.glob(pattern):
            path.unlink()
    for name in (".hydra", PREDICTIONS):
        shutil.rmtree(folder / name, ignore_errors=True)


def _read(path: Path, kind: type[T]) -> Optional[T]:
    try:
        return read(path, kind, "scripts/finetune_glue.sh")
    except UserError:
        return None
