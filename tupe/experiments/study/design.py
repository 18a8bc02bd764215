"""Read the design of a study, a file of `configs/study`, and list its runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import yaml
from omegaconf._utils import get_yaml_loader

from tupe.errors import UserError
from tupe.files import checked, read_text, typed
from tupe.systems import DESCRIPTIONS, SYSTEMS
from tupe.user_dir import config_dir

CONFIGS = config_dir("study")

#: fairseq's own model, which checks the baseline `BERT-A` by other code.
ROBERTA = "roberta"
BASELINE = "bert_a"
#: Row of a model without positions, whose loss shows what can be learnt without word order.
CONTROL = "no_positions"

Part = Literal["search", "final", "start", "short", "glue", "cost"]
Extension = Literal["linear", "ntk", "yarn", "log_n", "window", "fire_length"]


@dataclass(frozen=True)
class Start:
    """How the short runs of a row begin: with the checkpoint of another row made into its system, or from scratch."""

    row: str = ""  # the other row, whose final checkpoint of the same seed is taken; empty: from scratch
    positions: Literal["calibrate", "weights", "new"] = "calibrate"  # of `tupe warm-start --positions`


@dataclass(frozen=True)
class System:
    """A row of the comparison."""

    # number of pre-trainings at the best rate, seeds 1, 2, ...; 0: only the search
    seeds: int = checked(minimum=0, maximum=1000)
    model: str = ""  # a system of `tupe systems`, or `roberta`; by default the row's name
    label: str = ""  # name in tables; by default the paper's
    # key -> value of the pre-training's configuration, for this row alone
    settings: dict[str, Any] = field(default_factory=dict)
    # extensions to windows longer than in training, each measured by itself (`tupe.analysis.length.EXTENSIONS`)
    evaluate: tuple[Extension, ...] = ()
    # more learning rates for this row's search, where the best of the common rates is the smallest or greatest
    rates: tuple[float, ...] = checked(minimum=1e-12, default=())
    lr: float | None = checked(minimum=1e-12, default=None)  # the rate, which then is not searched
    start: Start | None = None  # short runs, one for each of the design's `shares`, instead of one of all updates


@dataclass(frozen=True)
class Search:
    """Search of the learning rates: `rates`, each with `seed`, in runs of `updates` with their own schedule.

    A single rate is taken without a search.
    """

    rates: tuple[float, ...] = checked(minimum=1e-12)
    updates: int = checked(minimum=1, default=0)
    seed: int = checked(minimum=0, maximum=2**32 - 1, default=1)


@dataclass(frozen=True)
class FineTuning:
    """A sweep of each checkpoint, final and after `mid` updates; `settings` are `key=value` for its runs."""

    tasks: tuple[str, ...] = checked(pattern="[A-Za-z0-9-]+", default=())
    rates: tuple[float, ...] = checked(minimum=1e-12, default=())
    seeds: tuple[int, ...] = checked(minimum=0, maximum=2**32 - 1, default=())
    settings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Design:
    """A file of `configs/study`; docs/study.md is its schema."""

    updates: int = checked(minimum=1)  # of each final run
    search: Search  # of the learning rates
    groups: tuple[dict[str, System], ...]  # systems, done one group after another
    config: str = "study"  # of `configs/pretraining`
    model_size: str = "tiny"  # or `small`, ...
    corpus: tuple[str, ...] = ()  # options of `tupe prepare-corpus`
    settings: dict[str, Any] = field(default_factory=dict)  # key -> value over `config`, for all systems
    validations: int = checked(minimum=1, default=20)  # of each final run, evenly spaced
    mid: int = checked(minimum=0, default=0)  # updates after which a checkpoint is kept; 0: none
    baseline: str = ""  # the row that others are compared with; by default BERT-A, or without it the first row
    # lengths of sequences at which the final loss at each position is measured
    lengths: tuple[int, ...] = checked(minimum=3, maximum=1_000_000, default=())
    masks: int = checked(minimum=0, maximum=1000, default=0)  # drawn for the loss by length; 0: not measured
    finetuning: FineTuning = field(default_factory=FineTuning)  # of the checkpoints
    cost: tuple[str, ...] = ()  # arguments of `benchmarks/model.py`
    jobs: int = checked(minimum=0, maximum=10_000, default=0)  # pre-trainings at a time; 0: one for each core
    shares: tuple[float, ...] = checked(minimum=0, maximum=1, default=())  # of `updates`: lengths of the short runs
    name: str = ""  # of the file

    @property
    def systems(self) -> dict[str, System]:
        """All systems of all groups."""
        return {name: system for group in self.groups for name, system in group.items()}

    def label(self, name: str) -> str:
        row = self.systems.get(name)  # a table may name a baseline that this study lacks
        return row.label if row is not None and row.label else DESCRIPTIONS[self.model(name)][0]

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
        """Numbers of updates of the short runs, each with its own schedule; 0 is the loss before any."""
        return tuple(sorted({0, *(max(1, round(share * self.updates)) for share in self.shares)}))

    @property
    def started(self) -> dict[str, System]:
        """The systems that have short runs."""
        return {name: system for name, system in self.systems.items() if system.start is not None}

    def before(self, run: Run) -> Run | None:
        """Return the run whose checkpoint a run begins with: a pre-training, or a warm start; None for most."""
        if run.part == "glue":
            return Run("final", run.system, run.seed)
        start = self.systems[run.system].start if run.system in self.systems else None
        if start is None or not start.row:
            return None
        return Run("final", start.row, run.seed) if run.part == "start" else Run("start", run.system, run.seed)

    def pretraining(self, run: Run) -> Run | None:
        """Return the pre-training from which a run's checkpoint comes, also by a warm start."""
        first = self.before(run)
        return self.before(first) if first is not None and first.part == "start" else first

    def after(self, at: str) -> int:
        """Return the updates of the checkpoint `at`: the `end`, or `mid`."""
        return self.mid if at == "mid" else self.updates

    def runs(self) -> Iterator[Run]:
        """Yield all runs: for each group the search, then seed after seed; finally the fine-tunings and the costs.

        A row with a single rate has no search. Short runs, from the shortest, come after the runs of all updates and
        after the warm starts. Fine-tunings need tasks, and costs need arguments of the benchmark.
        """
        for group in self.groups:
            for name in group:
                yield from self.searches(name)
            whole = {name: system for name, system in group.items() if system.start is None}
            started = {name: system for name, system in group.items() if system.start is not None}
            yield from _by_seed("final", whole)
            yield from _by_seed("start", {name: system for name, system in started.items() if system.start.row})
            for updates in self.short:
                yield from _by_seed("short", started, str(updates))
        for group in self.groups if self.finetuning.tasks else ():
            for at in ("end", "mid") if self.mid else ("end",):
                ours = {name: row for name, row in group.items() if row.start is None and self.model(name) != ROBERTA}
                yield from _by_seed("glue", ours, at)
        if self.cost:
            yield Run("cost", "all", 1)


@dataclass(frozen=True)
class Run:
    """One run of the study, which leaves one record."""

    # `search` of the rate, `final` pre-training at the best rate, `start`: a warm start, `short`: a training from it,
    # `glue`: a sweep of fine-tunings, or `cost`
    part: Part
    system: str
    seed: int  # of the pre-training
    lr: float | None = None  # of a search
    at: str = ""  # of a sweep, the checkpoint: `end` or `mid`; of a short run, the updates

    @property
    def path(self) -> Path:
        """Path of the record in the study's folder; without the suffix, path of the run's own folder."""
        which = f"lr_{self.lr:g}" if self.lr is not None else f"seed_{self.seed}"
        return Path(self.part, f"{self.system}.{which}{self.at and f'.{self.at}'}.json")

    def __str__(self) -> str:
        return self.path.with_suffix("").as_posix()


def _by_seed(part: Part, group: dict[str, System], at: str = "") -> Iterator[Run]:
    """Yield seed 1 of all systems, then seed 2, and so on, so that all systems always have about as many runs."""
    for seed in range(1, max((system.seeds for system in group.values()), default=0) + 1):
        yield from (Run(part, name, seed, at=at) for name, system in group.items() if seed <= system.seeds)


def read_design(size: str) -> Design:
    """Read the study `configs/study/SIZE.yaml`, or the file `size`.

    Raises:
        UserError: if there is none, or it is wrong.
    """
    path = Path(size) if size.endswith(".yaml") else CONFIGS / f"{size}.yaml"
    if not path.is_file():
        known = ", ".join(sorted(file.stem for file in CONFIGS.glob("*.yaml")))
        raise UserError(f"there is no study {size}: give one of {known}, or a file such as my.yaml.")
    text = read_text(path, "a study", "see docs/study.md")
    try:
        content = yaml.load(text, get_yaml_loader())  # as Hydra reads it: 1e-4 is a number, no key stands twice
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # a number of thousands of digits
        raise UserError(f"{path} is no YAML: {' '.join(str(error).split()):.300}.") from None
    design = typed(Design, content, str(path), "a study", "see docs/study.md")
    if not any(design.groups):
        raise UserError(f"{path} compares nothing: give groups of systems; see docs/study.md.")
    if not design.search.updates and any(len(design.rates(name)) > 1 for name in design.systems):
        raise UserError(f"{path} has several rates and no search.updates: say after how many they are compared.")
    if not all(map(design.rates, design.systems)):
        raise UserError(f"{path} has no learning rate: give search.rates at least one.")
    if design.validations > design.updates:
        raise UserError(f"{path} has {design.validations} validations of {design.updates} updates: give fewer.")
    every = design.updates // design.validations
    if design.mid > design.updates:
        raise UserError(f"{path} keeps the checkpoint of update {design.mid} of {design.updates}: lower mid.")
    if design.mid % every:
        raise UserError(f"{path} keeps the checkpoint of update {design.mid}, but saves every {every}: change mid.")
    if len(design.systems) < sum(map(len, design.groups)):
        raise UserError(f"{path} has a row of one name in several groups: give each its own, with model: SYSTEM.")
    if design.masks and not design.lengths:
        raise UserError(f"{path} draws masks for the loss by length, and has no lengths: give some, or no masks.")
    if not design.masks and any(system.evaluate for system in design.systems.values()):
        raise UserError(f"{path} has extensions to evaluate, and no masks for the loss by length: give some, as 4.")
    if design.shares and not design.started:
        raise UserError(f"{path} has shares, the lengths of short runs, and no row with a start: leave them out.")
    if design.finetuning.tasks and not (design.finetuning.rates and design.finetuning.seeds):
        raise UserError(f"{path} fine-tunes without rates or seeds: give both under finetuning, or no tasks.")
    for name in design.systems:
        if "/" in name:
            raise UserError(f"{path} has the row {name!r}, which names files: leave out the slash.")
        if design.model(name) not in (*SYSTEMS, ROBERTA):
            raise UserError(f"{path} compares {design.model(name)}, which `tupe systems` does not list.")
    _check_starts(design, path)
    if twice := [label for label, count in Counter(map(design.label, design.systems)).items() if count > 1]:
        raise UserError(f"{path} has two rows that tables call {twice[0]}: give one of them a label.")
    if design.baseline and design.baseline not in design.systems:
        rows = ", ".join(design.systems)
        raise UserError(f"{path} has the baseline {design.baseline}, which is no row: it has {rows}.")
    default = BASELINE if BASELINE in design.systems else next(iter(design.systems))
    return replace(design, name=path.stem, baseline=design.baseline or default)


def _check_starts(design: Design, path: Path) -> None:
    """Raise `UserError` for a row whose start the design does not train."""
    for name, system in design.started.items():
        source = design.systems.get(system.start.row)
        if not design.shares:
            raise UserError(f"{path} starts {name}, but its short runs have no lengths: give shares, such as [0.1].")
        if design.model(name) == ROBERTA:
            raise UserError(f"{path} starts {name}, a model of fairseq's: choose one of `tupe systems`.")
        if not system.start.row:
            continue
        if source is None or source.start is not None or design.model(system.start.row) == ROBERTA:
            raise UserError(
                f"{path} starts {name} from {system.start.row}, which is no row of this plugin's trained in full: "
                "choose another row."
            )
        if source.seeds < system.seeds:
            raise UserError(f"{path} starts more seeds of {name} than {system.start.row} has: give that row as many.")
        if len(design.rates(name)) > 1 and design.search.seed > system.seeds:
            raise UserError(
                f"{path} searches the rate of {name} with the seed {design.search.seed}, and starts {system.seeds} "
                "seed(s) of it: change search.seed, or give the row as many."
            )
