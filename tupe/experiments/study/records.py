"""Records of runs: each a small JSON file with the settings, the result, and the machine."""

import math
import os
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any, ClassVar

import torch

from tupe.analysis.length import LengthLoss
from tupe.cores import available_cores, processor
from tupe.data.corpus.manifest import versions
from tupe.errors import UserError
from tupe.experiments.study.design import Design, Run
from tupe.files import difference, read

MADE_BY = "scripts/study.sh"


@dataclass(frozen=True)
class Record:
    """Base of the records. Each kind of run adds its results."""

    version: ClassVar[int] = 1
    settings: dict[str, Any]  # all that the result depends on
    host: dict[str, int | str]  # processor, cores, GPU
    versions: dict[str, str]


@dataclass(frozen=True)
class Pretraining(Record):
    """Record of a pre-training that reached its last update, or diverged in the search.

    Raises:
        UserError: for a curve without a validation.
    """

    lr: float  # the peak of the learning rate
    parameters: int  # of the model
    curve: tuple[tuple[int, float], ...]  # update and validation loss, bits a masked token
    accuracy: float | None  # masked tokens predicted right at the end, percent; None with fairseq's criterion
    training_seconds: float  # wall time of all updates, also of those done twice; without validation
    processor_seconds: float  # of the process and of its interrupted starts, as far as known
    # at the end: length of the sequences -> bits a masked token at positions 0, 1, ...; `None`, or 0 in older records,
    # where no token is masked, as at 0
    loss_by_position: dict[str, tuple[float | None, ...]] = field(default_factory=dict)
    # at the end, on the same masked tokens: extension of the windows -> their length -> the loss
    loss_by_length: dict[str, dict[str, LengthLoss]] = field(default_factory=dict)
    # pattern -> number of heads whose position correlation has it (`tupe.analysis.heads`)
    heads: dict[str, int] = field(default_factory=dict)
    diverged: bool = False  # whether it ended early because loss or gradients were not finite

    def __post_init__(self) -> None:
        if not self.curve and not self.diverged:
            raise UserError("a pre-training without a validation has no loss: remove its record and do it again.")

    @property
    def loss(self) -> float:
        """The final validation loss; infinite if the run diverged."""
        return math.inf if self.diverged else self.curve[-1][1]


@dataclass(frozen=True)
class FineTuning(Record):
    """Record of a sweep of one checkpoint: `scores` by task and learning rate, percent, one for each seed."""

    scores: dict[str, dict[str, tuple[float, ...]]]
    processor_seconds: float


@dataclass(frozen=True)
class Cost(Record):
    """Record of costs by `benchmarks/model.py`: conditions, and relative time to the first system, by system and mode.

    A time is a median with its quartiles, `(lower, median, upper)`.
    """

    conditions: str
    times: dict[str, dict[str, tuple[float, float, float]]]


@dataclass(frozen=True)
class Conversion(Record):
    """Record of a checkpoint that `tupe warm-start` made into another system."""

    seconds: float  # of the processor, for the conversion alone


KINDS = {
    "search": Pretraining,
    "final": Pretraining,
    "start": Conversion,
    "short": Pretraining,
    "glue": FineTuning,
    "cost": Cost,
}


def read_record(folder: Path, run: Run) -> Record | None:
    """Return the record of a run in the folder of its study, or None.

    Raises:
        UserError: for a file that is damaged.
    """
    path = folder / run.path
    return read(path, KINDS[run.part], MADE_BY) if os.path.lexists(path) else None


def read_records(folder: Path, design: Design) -> dict[Run, Record]:
    """Return the existing records of a study's runs."""
    found = {run: read_record(folder, run) for run in design.runs()}
    return {run: record for run, record in found.items() if record is not None}


def check_settings(path: Path, found: dict[str, Any], asked: dict[str, Any]) -> None:
    """Raise `UserError` if the settings `found` at `path` differ from those of its run, `asked`."""
    differs = difference(found, asked)
    if differs:
        raise UserError(f"{path} is of a run with {differs}: move it away, or give --out and --records other folders.")


def best_rate(design: Design, system: str, records: dict[Run, Record]) -> float | None:
    """Return the rate with the lowest final loss in the search; None before all have ended, or if all diverged.

    A single rate is the best without a search.
    """
    searches = design.searches(system)
    if not searches:
        return design.rates(system)[0]
    if any(run not in records for run in searches):
        return None
    best = min(searches, key=lambda run: records[run].loss)
    return best.lr if math.isfinite(records[best].loss) else None


def this_machine() -> dict[str, dict[str, Any]]:
    """Return the fields of a record that name the processor, its cores, the GPU if there is one, and the versions."""
    host = {"processor": processor(), "cores": available_cores()}
    if torch.cuda.is_available():
        host["gpu"] = torch.cuda.get_device_name()
    return {"host": host, "versions": {**versions(), "torch": version("torch")}}
