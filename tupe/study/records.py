"""What a run leaves: one small JSON file, of its settings alone, with what is needed to say what it is worth."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any, ClassVar, Optional, Union

from tupe.cores import available_cores, processor
from tupe.data.corpus.manifest import versions
from tupe.errors import UserError
from tupe.files import difference, read
from tupe.study.design import Design, Run

MADE_BY = "scripts/study.sh"


@dataclass(frozen=True)
class Pretraining:
    """A pre-training that reached its last update, or one of the search that diverged.

    Attributes:
        settings: all that the result depends on.
        lr: the peak of the learning rate.
        parameters: of the model.
        curve: update and validation loss, bits a masked token.
        accuracy: masked tokens that were right at the end, percent; fairseq's own criterion does not say.
        training_seconds: on the clock, without start and validation.
        processor_seconds: of the whole process and its interrupted beginnings, as far as they were seen.
        host: processor, cores, GPU.
        versions: of packages.
        loss_by_position: at the end: length of the sequences -> bits a masked token at positions 0, 1, ...
        heads: pattern -> heads whose position correlation has it (`tupe.analysis.heads`).
        diverged: its loss or gradients were not finite, so that it ended there; the curve is that until then.

    Raises:
        UserError: for a curve without a validation.
    """

    version: ClassVar[int] = 1
    settings: dict[str, Any]
    lr: float
    parameters: int
    curve: tuple[tuple[int, float], ...]
    accuracy: Optional[float]
    training_seconds: float
    processor_seconds: float
    host: dict[str, Union[int, str]]
    versions: dict[str, str]
    loss_by_position: dict[str, tuple[float, ...]] = field(default_factory=dict)
    heads: dict[str, int] = field(default_factory=dict)
    diverged: bool = False

    def __post_init__(self) -> None:
        if not self.curve and not self.diverged:
            raise UserError("a pre-training without a validation has no loss: remove its record and do it again.")

    @property
    def loss(self) -> float:
        """At the end; infinite of one that diverged."""
        return math.inf if self.diverged else self.curve[-1][1]


@dataclass(frozen=True)
class FineTuning:
    """A sweep of one checkpoint: `scores` by task and learning rate, percent, one for each seed."""

    version: ClassVar[int] = 1
    settings: dict[str, Any]
    scores: dict[str, dict[str, tuple[float, ...]]]
    processor_seconds: float
    host: dict[str, Union[int, str]]
    versions: dict[str, str]


@dataclass(frozen=True)
class Cost:
    """Of `benchmarks/model.py`: its conditions, and by system and mode the time over the first system's.

    A time is a median with its quartiles, `(lower, median, upper)`.
    """

    version: ClassVar[int] = 1
    settings: dict[str, Any]
    conditions: str
    times: dict[str, dict[str, tuple[float, float, float]]]
    host: dict[str, Union[int, str]]
    versions: dict[str, str]


Record = Union[Pretraining, FineTuning, Cost]
KINDS = {"search": Pretraining, "final": Pretraining, "glue": FineTuning, "cost": Cost}


def read_record(folder: Path, run: Run) -> Optional[Record]:
    """The record of a run in the folder of its study, or None.

    Raises:
        UserError: for a file that is damaged.
    """
    path = folder / run.path
    return read(path, KINDS[run.part], MADE_BY) if os.path.lexists(path) else None


def read_records(folder: Path, design: Design) -> dict[Run, Record]:
    """All that there are, of the runs of a study."""
    found = {run: read_record(folder, run) for run in design.runs()}
    return {run: record for run, record in found.items() if record is not None}


def check_settings(path: Path, found: dict[str, Any], asked: dict[str, Any]) -> None:
    """Raises a `UserError` if what is at `path` is of other settings than those of its run now."""
    differs = difference(found, asked)
    if differs:
        raise UserError(f"{path} is of a run with {differs}: move it away, or give --out and --records other folders.")


def best_rate(design: Design, system: str, records: dict[Run, Record]) -> Optional[float]:
    """The rate whose search ended with the lowest loss; None before all of them have ended, or if all diverged."""
    searched = [run for run in design.runs() if run.part == "search" and run.system == system]
    if any(run not in records for run in searched):
        return None
    best = min(searched, key=lambda run: records[run].loss)
    return best.lr if math.isfinite(records[best].loss) else None


def this_host() -> dict[str, Union[int, str]]:
    """The processor by its name, the cores that may be used, and the GPU if there is one."""
    import torch

    host: dict[str, Union[int, str]] = {"processor": processor(), "cores": available_cores()}
    return {**host, "gpu": torch.cuda.get_device_name()} if torch.cuda.is_available() else host


def these_versions() -> dict[str, str]:
    """Of Python, PyTorch, fairseq, this package, and what prepared the corpus."""
    return {**versions(), "torch": version("torch")}
