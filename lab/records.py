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
    """The settings, the machine and the results of a run."""

    version: int = 1
    settings: dict[str, Any]  # everything that the result depends on
    host: dict[str, int | str]  # processor, cores, GPU
    versions: dict[str, str]
    processor_seconds: float = 0.0  # of the process, including its interrupted starts

    # a pre-training that reached its last update, or diverged in the search
    lr: float = 0.0  # the peak of the learning rate
    parameters: int = 0  # of the model
    curve: list[tuple[int, float]] = field(default_factory=list)  # update and validation loss, bits per masked token
    accuracy: float | None = None  # masked tokens predicted right at the end, percent; None with fairseq's criterion
    training_seconds: float = 0.0  # wall time of all updates and validations, also of those done twice
    # at the end: length of the sequences -> bits per masked token at positions 0, 1, ...; `None`, or 0 in older
    # records, at positions without masked tokens, such as 0
    loss_by_position: dict[str, list[float | None]] = field(default_factory=dict)
    # at the end, on the same masked tokens: extension of the windows -> their length -> fields of `LengthLoss`
    loss_by_length: dict[str, dict[str, dict[str, Any]]] = field(default_factory=dict)
    # pattern -> number of heads whose position correlation has it (`tupe.analysis.heads`)
    heads: dict[str, int] = field(default_factory=dict)
    diverged: bool = False  # whether it ended early because loss or gradients were not finite

    # a sweep of one checkpoint: column -> learning rate -> percent, one for each seed
    scores: dict[str, dict[str, list[float]]] = field(default_factory=dict)

    # costs by `lab/benchmarks/model.py`: system -> mode -> quartiles of the time relative to the first system
    conditions: str = ""
    times: dict[str, dict[str, list[float]]] = field(default_factory=dict)

    seconds: float = 0.0  # CPU time of a conversion by `tupe warm-start`

    @property
    def loss(self) -> float:
        """The final validation loss; infinite if the run diverged."""
        return math.inf if self.diverged else self.curve[-1][1]


def read_records(folder: Path, design: Design) -> dict[Run, Record]:
    """Return the existing records of a study's runs."""
    paths = {run: folder / run.path for run in design.runs()}
    return {run: Record(**read_json(path)) for run, path in paths.items() if path.exists()}


def write_record(folder: Path, run: Run, record: Record) -> None:
    """Write only the fields that differ from their defaults: other fields belong to other kinds of runs."""
    usual = asdict(Record(settings={}, host={}, versions={}, version=0))
    write_json(folder / run.path, {name: value for name, value in asdict(record).items() if value != usual[name]})


def best_rate(design: Design, system: str, records: dict[Run, Record]) -> float | None:
    """Return the rate with the lowest final loss in the search; None before all runs have ended, or if all diverged.

    A single rate needs no search.
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
