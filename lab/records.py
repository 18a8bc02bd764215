"""Records of runs: each a small JSON file with the settings, the result, and the machine."""

import math
import platform
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

import tupe
from lab.benchmarks.measured import processor
from lab.design import Design, Run
from tupe.util import available_cores, read_json, write_json


@dataclass(kw_only=True)
class Record:
    """Base of the records. Each kind of run adds its results."""

    version: int = 1
    settings: dict[str, Any]  # all that the result depends on
    host: dict[str, int | str]  # processor, cores, GPU
    versions: dict[str, str]


@dataclass(kw_only=True)
class Pretraining(Record):
    """Record of a pre-training that reached its last update, or diverged in the search."""

    lr: float  # the peak of the learning rate
    parameters: int  # of the model
    curve: list[tuple[int, float]]  # update and validation loss, bits a masked token
    accuracy: float | None  # masked tokens predicted right at the end, percent; None with fairseq's criterion
    training_seconds: float  # wall time of all updates, also of those done twice; without validation
    processor_seconds: float  # of the process and of its interrupted starts
    # at the end: length of the sequences -> bits a masked token at positions 0, 1, ...; `None`, or 0 in older records,
    # where no token is masked, as at 0
    loss_by_position: dict[str, list[float | None]] = field(default_factory=dict)
    # at the end, on the same masked tokens: extension of the windows -> their length -> fields of `LengthLoss`
    loss_by_length: dict[str, dict[str, dict[str, Any]]] = field(default_factory=dict)
    # pattern -> number of heads whose position correlation has it (`tupe.analysis.heads`)
    heads: dict[str, int] = field(default_factory=dict)
    diverged: bool = False  # whether it ended early because loss or gradients were not finite

    @property
    def loss(self) -> float:
        """The final validation loss; infinite if the run diverged."""
        return math.inf if self.diverged else self.curve[-1][1]


@dataclass(kw_only=True)
class FineTuning(Record):
    """Record of a sweep of one checkpoint: `scores` by column and learning rate, percent, one for each seed."""

    scores: dict[str, dict[str, list[float]]]
    processor_seconds: float


@dataclass(kw_only=True)
class Cost(Record):
    """Record of costs by `lab/benchmarks/model.py`: relative time to the first system, by system and mode.

    A time is a median with its quartiles, `[lower, median, upper]`.
    """

    conditions: str
    times: dict[str, dict[str, list[float]]]


@dataclass(kw_only=True)
class Conversion(Record):
    """Record of a checkpoint that `tupe warm-start` converted into another system."""

    seconds: float  # of the processor, for the conversion only


KINDS = {
    "search": Pretraining,
    "final": Pretraining,
    "start": Conversion,
    "short": Pretraining,
    "glue": FineTuning,
    "cost": Cost,
}


def read_records(folder: Path, design: Design) -> dict[Run, Record]:
    """Return the existing records of a study's runs."""
    paths = {run: folder / run.path for run in design.runs()}
    return {run: KINDS[run.part](**read_json(path)) for run, path in paths.items() if path.exists()}


def write_record(folder: Path, run: Run, record: Record) -> None:
    write_json(folder / run.path, asdict(record))


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
    versions = {"python": platform.python_version(), "tupe": tupe.__version__}
    return {"host": host, "versions": {**versions, **{name: version(name) for name in ("numpy", "torch")}}}
