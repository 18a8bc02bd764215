"""What a study compares, a file of `configs/study`, and the runs that follow from it, in their order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, Optional

import yaml

import tupe
from tupe.errors import UserError
from tupe.files import checked, read_text, typed
from tupe.systems import DESCRIPTIONS, SYSTEMS

ROOT = Path(tupe.__file__).resolve().parents[1]
CONFIGS = ROOT / "configs/study"

#: fairseq's model, a check of the baseline: `BERT-A` by other code.
ROBERTA = "roberta"
BASELINE = "bert_a"
#: A row of this name is a model without any positions: what it reaches is learnt without word order.
CONTROL = "no_positions"

Part = Literal["search", "final", "glue", "cost"]


@dataclass(frozen=True)
class System:
    """A row of the comparison.

    Attributes:
        seeds: how many pre-trainings at the best rate, seeds 1, 2, ...; 0: the search alone.
        model: a system of `tupe systems`, or `roberta`; the row's name if it is not given.
        label: what tables call it; by default as in its paper.
        settings: key -> value of the pre-training's configuration, for this row alone.
        rates: of learning that its search tries beside those of all, where their best is at an end.
    """

    seeds: int = checked(minimum=0)
    model: str = ""
    label: str = ""
    settings: dict[str, Any] = field(default_factory=dict)
    rates: tuple[float, ...] = ()


@dataclass(frozen=True)
class Search:
    """Of each system's learning rate: `rates`, each with `seed`, in runs of `updates` with a schedule of their own."""

    rates: tuple[float, ...]
    updates: int = checked(minimum=1)
    seed: int = 1


@dataclass(frozen=True)
class FineTuning:
    """A sweep of each final checkpoint and of that after `mid` updates; `settings` are `key=value` for its runs."""

    tasks: tuple[str, ...]
    rates: tuple[float, ...]
    seeds: tuple[int, ...]
    settings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Design:
    """A file of `configs/study`.

    Attributes:
        config: of `configs/pretraining`.
        model_size: `tiny`, `small`, ...
        corpus: options of `tupe prepare-corpus`.
        settings: key -> value over `config`, for all systems.
        updates: of each final run.
        validations: of each final run, evenly spaced.
        mid: after how many updates a checkpoint is kept.
        search: of the learning rates.
        groups: systems, done one group after another.
        lengths: of sequences, at which the loss at each position is measured in the end.
        finetuning: of the checkpoints.
        cost: arguments of `benchmarks/model.py`.
        jobs: pre-trainings at a time; 0: one for each core.
        name: of the file.
    """

    config: str
    model_size: str
    corpus: tuple[str, ...]
    settings: dict[str, Any]
    updates: int = checked(minimum=1)
    validations: int = checked(minimum=1)
    mid: int = checked(minimum=1)
    search: Search
    groups: tuple[dict[str, System], ...]
    lengths: tuple[int, ...]
    finetuning: FineTuning
    cost: tuple[str, ...]
    jobs: int = checked(minimum=0)
    name: str = ""

    @property
    def systems(self) -> dict[str, System]:
        """Of all groups."""
        return {name: system for group in self.groups for name, system in group.items()}

    def label(self, name: str) -> str:
        """What tables call a system."""
        return self.systems[name].label or DESCRIPTIONS[self.model(name)][0]

    def model(self, name: str) -> str:
        """The system of `tupe systems` that a row is of."""
        return self.systems[name].model or name

    def rates(self, name: str) -> list[float]:
        """All that a system's search tries, from the smallest."""
        return sorted({*self.search.rates, *self.systems[name].rates})

    def after(self, at: str) -> int:
        """Updates of the checkpoint `at`: the `end`, or `mid`."""
        return self.mid if at == "mid" else self.updates

    def runs(self) -> Iterator[Run]:
        """Yields all runs: of each group the search and then seed after seed; then the fine-tunings, and the costs."""
        for group in self.groups:
            for name in group:
                yield from (Run("search", name, self.search.seed, lr) for lr in self.rates(name))
            yield from _by_seed("final", group)
        for group in self.groups:
            for at in ("end", "mid"):
                ours = {name: system for name, system in group.items() if self.model(name) != ROBERTA}
                yield from _by_seed("glue", ours, at)
        yield Run("cost", "all", 1)


@dataclass(frozen=True)
class Run:
    """One part of the study, which leaves one record.

    Attributes:
        part: a pre-training to find the rate, one at the best rate, a sweep of fine-tunings, or the measured costs.
        system: the row.
        seed: of the pre-training.
        lr: of a search.
        at: which checkpoint a sweep is of, `end` or `mid`.
    """

    part: Part
    system: str
    seed: int
    lr: Optional[float] = None
    at: str = ""

    @property
    def path(self) -> Path:
        """Of the record in its study's folder; without the suffix, of what the run writes meanwhile."""
        which = f"lr_{self.lr:g}" if self.lr is not None else f"seed_{self.seed}"
        return Path(self.part, f"{self.system}.{which}{self.at and f'.{self.at}'}.json")

    def __str__(self) -> str:
        return self.path.with_suffix("").as_posix()


def _by_seed(part: Part, group: dict[str, System], at: str = "") -> Iterator[Run]:
    """Seed 1 of all, seed 2 of all, ...: at any time as many of one system as of the others."""
    for seed in range(1, max(system.seeds for system in group.values()) + 1):
        yield from (Run(part, name, seed, at=at) for name, system in group.items() if seed <= system.seeds)


def read_design(size: str) -> Design:
    """The study `configs/study/SIZE.yaml`, or the file `size`.

    Raises:
        UserError: if there is none, or it is not what a study is.
    """
    path = Path(size) if size.endswith(".yaml") else CONFIGS / f"{size}.yaml"
    if not path.is_file():
        known = ", ".join(sorted(file.stem for file in CONFIGS.glob("*.yaml")))
        raise UserError(f"there is no study {size}: give one of {known}, or a file such as my.yaml.")
    try:
        content = yaml.safe_load(read_text(path, "a study"))
    except yaml.YAMLError as error:
        raise UserError(f"{path} is no YAML: {' '.join(str(error).split())}.") from None
    design = typed(Design, content, str(path), "a study", "see configs/study/cpu.yaml")
    every = max(1, design.updates // design.validations)
    if design.mid % every:
        raise UserError(f"{path} keeps the checkpoint of update {design.mid}, but saves every {every}: change mid.")
    for name in design.systems:
        if design.model(name) not in (*SYSTEMS, ROBERTA):
            raise UserError(f"{path} compares {design.model(name)}, which `tupe systems` does not list.")
    return replace(design, name=path.stem)
