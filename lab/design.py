"""Read the design of a study, a file of `configs/study`, and list its runs. docs/studies.md describes the keys."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import omegaconf
from omegaconf import OmegaConf

from tupe.systems import PAPER_NAMES
from tupe.util import config_dir

#: fairseq's own model, an independent check of the baseline `BERT-A`.
ROBERTA = "roberta"
BASELINE = "bert_a"
#: Row of a model without positions. Its loss shows what can be learned without word order.
CONTROL = "no_positions"
PARTS = ("search", "final", "start", "short", "glue", "cost")


@dataclass
class Start:
    row: str = ""  # its final checkpoint of the same seed is converted into this row's system; empty: from scratch
    positions: str = "fitted"  # or `new`: drawn, as `tupe warm-start` does without `--data`


@dataclass
class System:
    """A row of the comparison."""

    seeds: int = omegaconf.MISSING
    model: str = ""
    label: str = ""
    settings: dict[str, Any] = field(default_factory=dict)
    window: bool = False  # whether longer inputs are also evaluated with attention limited to a window
    rates: list[float] = field(default_factory=list)
    lr: float | None = None
    start: Start | None = None


@dataclass
class Search:
    rates: list[float] = omegaconf.MISSING
    updates: int = 0
    seed: int = 1


@dataclass
class FineTuning:
    tasks: list[str] = field(default_factory=list)
    rates: list[float] = field(default_factory=list)
    seeds: list[int] = field(default_factory=list)
    settings: list[str] = field(default_factory=list)


class Run(NamedTuple):
    """One run of a study. It leaves one record."""

    part: str  # one of `PARTS`
    system: str
    seed: int  # of the pre-training
    lr: float | None = None  # of a search
    at: str = ""  # checkpoint of a sweep, `end` or `mid`; updates of a short run

    @property
    def path(self) -> Path:
        """Path of the record in the study's folder; without the suffix, path of the run's own folder."""
        which = f"lr_{self.lr:g}" if self.lr is not None else f"seed_{self.seed}"
        return Path(self.part, f"{self.system}.{which}{self.at and f'.{self.at}'}.json")

    def __str__(self) -> str:
        return self.path.with_suffix("").as_posix()


@dataclass
class Design:
    updates: int = omegaconf.MISSING
    search: Search = field(default_factory=Search)
    groups: list[dict[str, Any]] = omegaconf.MISSING  # `System` by name
    config: str = "study"
    model_size: str = "tiny"
    corpus: list[str] = field(default_factory=list)
    settings: dict[str, Any] = field(default_factory=dict)
    validations: int = 20
    mid: int = 0
    baseline: str = ""
    lengths: list[int] = field(default_factory=list)
    masks: int = 0
    shares: list[float] = field(default_factory=list)
    finetuning: FineTuning = field(default_factory=FineTuning)
    cost: list[str] = field(default_factory=list)
    jobs: int = 0
    name: str = ""  # of the file

    @property
    def systems(self) -> dict[str, System]:
        """All systems of all groups."""
        return {name: system for group in self.groups for name, system in group.items()}

    def label(self, name: str) -> str:
        row = self.systems.get(name)  # a table may name a baseline that this study lacks
        return row.label if row is not None and row.label else PAPER_NAMES.get(name, name)

    def model(self, name: str) -> str:
        """Return the system of `tupe systems` that a row compares."""
        row = self.systems.get(name)
        return row.model if row is not None and row.model else name

    def rates(self, name: str) -> list[float]:
        """Return the learning rates that a system's search tries, from the smallest, or the one that is known."""
        system = self.systems[name]
        return sorted({*self.search.rates, *system.rates}) if system.lr is None else [system.lr]

    def searches(self, name: str) -> list[Run]:
        """Return the runs that search a system's learning rate; none for a single rate."""
        rates = self.rates(name)
        return [Run("search", name, self.search.seed, lr) for lr in rates] if len(rates) > 1 else []

    @property
    def short(self) -> tuple[int, ...]:
        """Numbers of updates of the short runs, each with its own schedule; 0 is for the loss before any update."""
        return tuple(sorted({0, *(max(1, round(share * self.updates)) for share in self.shares)}))

    @property
    def started(self) -> dict[str, System]:
        """The systems that have short runs."""
        return {name: system for name, system in self.systems.items() if system.start is not None}

    def before(self, run: Run) -> Run | None:
        """Return the run whose checkpoint a run starts from: a pre-training or a warm start; None for most runs."""
        if run.part == "glue":
            return Run("final", run.system, run.seed)
        start = self.systems[run.system].start if run.system in self.systems else None
        if start is None or not start.row:
            return None
        return Run("final", start.row, run.seed) if run.part == "start" else Run("start", run.system, run.seed)

    def after(self, at: str) -> int:
        """Return the updates of the checkpoint `at`: the `end`, or `mid`."""
        return self.mid if at == "mid" else self.updates

    def runs(self) -> Iterator[Run]:
        """Yield all runs: for each group the search, then seed after seed; finally the fine-tunings and the costs.

        Short runs, from the shortest, come after the runs of all updates and after the warm starts.
        """
        for group in self.groups:
            for name in group:
                yield from self.searches(name)
            started = {name: system for name, system in group.items() if system.start is not None}
            yield from _by_seed("final", {name: system for name, system in group.items() if name not in started})
            yield from _by_seed("start", {name: system for name, system in started.items() if system.start.row})
            for updates in self.short:
                yield from _by_seed("short", started, str(updates))
        for group in self.groups if self.finetuning.tasks else ():
            ours = {name: row for name, row in group.items() if row.start is None and self.model(name) != ROBERTA}
            for at in ("end", "mid") if self.mid else ("end",):
                yield from _by_seed("glue", ours, at)
        if self.cost:
            yield Run("cost", "all", 1)


def _by_seed(part: str, group: dict[str, System], at: str = "") -> Iterator[Run]:
    """Yield seed 1 of all systems, then seed 2, and so on, so that no system gets far ahead of the others."""
    for seed in range(1, max((system.seeds for system in group.values()), default=0) + 1):
        yield from (Run(part, name, seed, at=at) for name, system in group.items() if seed <= system.seeds)


def read_design(size: str) -> Design:
    """Read the study `configs/study/SIZE.yaml`, or the file `size`. OmegaConf checks keys and types."""
    path = Path(size) if size.endswith(".yaml") else config_dir("study") / f"{size}.yaml"
    design = _typed(Design, OmegaConf.load(path))
    design.groups = [{name: _typed(System, row) for name, row in group.items()} for group in design.groups]
    # two rows of one name would share their records
    assert len(design.systems) == sum(map(len, design.groups)), f"{path} has two rows of one name."
    design.name = path.stem
    default = BASELINE if BASELINE in design.systems else next(iter(design.systems))
    design.baseline = design.baseline or default
    return design


def _typed(kind: type, content: Any) -> Any:
    return OmegaConf.to_object(OmegaConf.merge(OmegaConf.structured(kind), content))
