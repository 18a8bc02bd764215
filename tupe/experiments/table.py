"""Make the papers' table from a sweep: the median over seeds for each learning rate, then the best rate."""

import math
import statistics
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from tupe.experiments.benchmarks import TASKS
from tupe.experiments.columns import COLUMNS, Column
from tupe.experiments.plan import Plan
from tupe.experiments.runs import Run, failure, result


@dataclass(frozen=True)
class Rate:
    """Scores of all seeds at one learning rate."""

    lr: float
    scores: tuple[float, ...]  # of the finished runs, percent

    @property
    def median(self) -> float:
        """The median over the seeds, which the papers report for a learning rate."""
        return statistics.median(self.scores)

    @property
    def spread(self) -> float | None:
        """Standard deviation over the seeds, where there are two or more."""
        return statistics.stdev(self.scores) if len(self.scores) > 1 else None


@dataclass(frozen=True)
class Cell:
    """A cell of the table: one system and one column."""

    score: float | None  # percent; None if there is no finished run
    planned: int = 0  # number of planned runs, except finished ones without the column's test set
    best: Rate | None = None  # the learning rate of the score; published rows have none
    rates: tuple[Rate, ...] = ()  # all learning rates with a finished run
    differs: str = ""  # how a mean over languages differs from the papers'

    @property
    def finished(self) -> int:
        return sum(len(rate.scores) for rate in self.rates)


@dataclass(frozen=True)
class Row:
    """A row of the table: one system."""

    name: str  # in the table
    cells: dict[str, Cell]  # by the name of the column
    failed: dict[Run, str] = field(default_factory=dict)  # failed runs with their reasons
    source: str = ""  # of a published row
    more: tuple[Column, ...] = ()  # columns that `COLUMNS` lacks: of single languages and of users' own tasks
    model: str = ""  # name of a sweep's model
    updates: int = 0  # of its pre-training

    def average(self, columns: list[Column]) -> float | None:
        """Return the mean over `columns`, with MNLI-m and MNLI-mm as two; None if a column has no score."""
        scores = [self.cells[column.name].score for column in columns if column.name in self.cells]
        if not columns or len(scores) < len(columns) or None in scores:
            return None
        return statistics.fmean(scores)


def read_sweep(out: Path, name: str = "", by_language: bool = False) -> Row:
    """Read the row of the sweep in `out`, called `name` or by its model and pre-training updates.

    MNLI-mm takes the learning rate and the epoch that are best for MNLI-m. Test sets by language take the learning
    rate that is best on the development set, which has the language of the training data.
    """
    plan = Plan.load(out)
    cells: dict[str, Cell] = {}
    of_task = {task: [run for run in plan.runs if run.task == task] for task in {run.task for run in plan.runs}}
    best = {task: _cell(Column("", task, metric=""), runs, out, None).best for task, runs in of_task.items()}
    more = [_own_column(task, runs, out) for task, runs in sorted(of_task.items()) if task not in TASKS]
    for column in [column for column in (*COLUMNS, *more) if column.task in of_task]:
        if by_language and column.subset.endswith("/"):
            more += _languages(column, of_task[column.task], out)
        rate = best[column.task]
        for one in (column, *(one for one in more if one.name not in cells and one.task == column.task)):
            cells[one.name] = _cell(one, of_task[one.task], out, rate and rate.lr)
    reasons = {run: failure(out / run.folder) for run in plan.runs}
    failed = {run: why for run, why in reasons.items() if why is not None}
    name = name or f"{plan.model}, {_updates(plan.updates)}"
    return Row(name, cells, failed, more=tuple(more), model=plan.model, updates=plan.updates)


def by_label(sweeps: Iterable[tuple[str, Path]]) -> dict[str, list[Row]]:
    """Map each label, by default the model, to the rows of its sweeps."""
    found: dict[str, list[Row]] = {}
    for label, out in sweeps:
        row = read_sweep(out)
        label = label or row.model
        found.setdefault(label, []).append(replace(row, name=f"{label}, {_updates(row.updates)}"))
    return found


def shown(rows: list[Row]) -> list[Column]:
    """Return the columns that at least one sweep has, or, without a sweep, that a published row has."""
    sweeps = [row for row in rows if not row.source] or rows
    columns = dict.fromkeys((*COLUMNS, *(column for row in sweeps for column in row.more)))
    return [column for column in columns if any(column.name in row.cells for row in sweeps)]


def _own_column(task: str, runs: list[Run], out: Path) -> Column:
    """Return the column of a user's own task, named by task and metric."""
    metric = next((found.metric for found in (result(out / run.folder) for run in runs) if found), "")
    return Column(f"{task} {metric}".strip(), task, metric, averaged=False)


def _languages(column: Column, runs: list[Run], out: Path) -> list[Column]:
    """Return a column for each language, `XQuAD F1 de`, or `XNLI de (valid)` for a development set; then their gap."""
    found = [result(out / run.folder) for run in runs]
    splits = sorted({name for content in found if content for name in column.splits(content)})
    each = [replace(column, name=_named(column, name), subset=name, averaged=False) for name in splits]
    gap = [replace(column, name=f"{column.name} gap", averaged=False, gap=True)]
    return each + gap * (len(each) > 1 and any(name.endswith("-en") for name in splits))


def _named(column: Column, split: str) -> str:
    kind, _, language = split.rpartition("/")[2].partition("-")
    return f"{column.name} {language}" + ("" if kind == "test" else f" ({kind})")


def _cell(column: Column, runs: list[Run], out: Path, lr: float | None) -> Cell:
    scores: dict[float, list[float]] = {}
    planned, differs = 0, {}
    for run in runs:
        content = result(out / run.folder)
        score = content and column.score(content)
        planned += content is None or score is not None  # a finished run may lack this test set
        if score is not None and math.isfinite(score):
            scores.setdefault(run.lr, []).append(score)
            differs[column.differs(content)] = None
    rates = tuple(Rate(rate, tuple(values)) for rate, values in sorted(scores.items()))
    best = max((rate for rate in rates if lr in (None, rate.lr)), key=lambda rate: rate.median, default=None)
    return Cell(best and best.median, planned, best, rates, " or ".join(filter(None, differs)))


def _updates(number: int) -> str:
    if number % 1_000_000 == 0 and number:
        return f"{number // 1_000_000}M updates"
    return f"{number // 1000}k updates" if number % 1000 == 0 and number else f"{number} updates"
