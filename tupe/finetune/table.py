"""Make the papers' table from a sweep: the median over seeds for each learning rate, then the best rate."""

import json
import math
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from tupe.finetune.columns import COLUMNS, Column
from tupe.finetune.runs import SWEEP, Result, Run, result
from tupe.util import check_labels, labelled, read_json

PUBLISHED = Literal["base", "large", "electra", "diet", "xtreme", "roberta", "xlmr"]
Found = tuple[float, Result | None]  # learning rate of a run, and its result if it is finished


class Cell(NamedTuple):
    """A cell of the table: one system and one column. A published one has only its score."""

    score: float | None  # percent: the median over the seeds; None if there is no finished run
    deviation: float | None = None  # standard deviation over the seeds, where there are two or more
    lr: float | None = None  # the learning rate of the score
    finished: int = 0  # number of finished runs
    planned: int = 0  # number of planned runs, except finished ones without the column's test set
    differs: str = ""  # how a mean over languages differs from the papers'
    scores: Mapping[float, list[float]] = {}  # of the finished runs, by learning rate


class Row(NamedTuple):
    """A row of the table: one system."""

    name: str  # in the table
    cells: dict[str, Cell]  # by the name of the column
    more: tuple[Column, ...] = ()  # columns that `COLUMNS` lacks: of single languages and of users' own tasks
    source: str = ""  # where a published row comes from
    updates: int = 0  # pre-training updates of a sweep's model

    def average(self, columns: list[Column]) -> float | None:
        """Return the mean over `columns`, with MNLI-m and MNLI-mm as two; None if a column has no score."""
        scores = [self.cells[column.name].score for column in columns if column.name in self.cells]
        if not columns or len(scores) < len(columns) or None in scores:
            return None
        return statistics.fmean(scores)


def table(
    sweeps: Sequence[str],
    *,
    published: PUBLISHED | None = None,
    by_language: bool = False,
    format: Literal["markdown", "json"] = "markdown",
) -> str:
    """Print the table of sweeps of GLUE or XTREME: the median of the seeds, then the best learning rate.

    tupe table TUPE-A=runs/glue/tupe_a_base runs/glue/bert_a_base --published base

    Args:
        sweeps: [LABEL=]SWEEP, the folders of sweeps.
        published: Add rows of published scores.
        by_language: Add a column per language.
        format: Format of the table; json also has the scores of every run.
    """
    from tupe.finetune.published import ROWS

    rows = [read_sweep(path, label, by_language) for label, path in labelled(sweeps)]
    check_labels([row.name for row in rows])
    return (as_json if format == "json" else markdown)([*rows, *ROWS.get(published, [])])


def read_sweep(out: Path, name: str = "", by_language: bool = False) -> Row:
    """Read the sweep in `out` as a row called `name`, by default its model and pre-training updates.

    MNLI-mm takes the learning rate and the epoch that are best for MNLI-m. Test sets by language take the learning
    rate that is best on the development set, which has the language of the training data.
    """
    plan = read_json(out / SWEEP)
    runs = [Run(**run) for run in plan["runs"]]
    row = Row(name or f"{plan['model']}, {plan['updates']:,} updates", {}, updates=plan["updates"])
    for task in dict.fromkeys(run.task for run in runs):
        found = [(run.lr, result(out / run.folder)) for run in runs if run.task == task]
        metric = next((of_run.metric for _, of_run in found if of_run), "")
        own = Column(f"{task} {metric}".strip(), task, metric, averaged=False)
        columns = [column for column in COLUMNS if column.task == task] or [own]
        for column in columns if by_language else ():
            columns = [*columns, *_languages(column, found)]
        lr = _cell(Column("", task, metric=""), found).lr
        row.cells.update({column.name: _cell(column, found, lr) for column in columns})
        row = row._replace(more=(*row.more, *(column for column in columns if column not in COLUMNS)))
    return row


def shown(rows: list[Row]) -> list[Column]:
    """Return the columns that at least one sweep has, or, without a sweep, that a published row has."""
    sweeps = [row for row in rows if not row.source] or rows
    columns = dict.fromkeys((*COLUMNS, *(column for row in sweeps for column in row.more)))
    return [column for column in columns if any(column.name in row.cells for row in sweeps)]


def _languages(column: Column, found: list[Found]) -> list[Column]:
    """Return a column per language of a mean, `XQuAD F1 de` or `XNLI de (valid)`, and the column of their gap."""
    if not column.subset.endswith("/"):
        return []
    each = []
    for split in sorted({split for _, of_run in found if of_run for split in column.splits(of_run)}):
        kind, _, language = split.rpartition("/")[2].partition("-")
        name = f"{column.name} {language}" + ("" if kind == "test" else f" ({kind})")
        each.append(column._replace(name=name, subset=split, averaged=False))
    if len(each) > 1 and any(one.subset.endswith("-en") for one in each):
        each.append(column._replace(name=f"{column.name} gap", averaged=False, gap=True))
    return each


def _cell(column: Column, found: list[Found], lr: float | None = None) -> Cell:
    """Return the cell of a column at the learning rate `lr`, or at the best."""
    scores: dict[float, list[float]] = {}
    planned, differs = 0, {}
    for run_lr, of_run in found:
        score = of_run and column.score(of_run)
        planned += of_run is None or score is not None  # a finished run may lack this test set
        if score is not None and math.isfinite(score):
            scores.setdefault(run_lr, []).append(score)
            differs[column.differs(of_run)] = None
    medians = {rate: statistics.median(of_rate) for rate, of_rate in sorted(scores.items()) if lr in (None, rate)}
    best = max(medians, key=lambda rate: medians[rate], default=None)
    of_seeds = scores.get(best, [])
    return Cell(
        score=medians.get(best),
        deviation=statistics.stdev(of_seeds) if len(of_seeds) > 1 else None,
        lr=best,
        finished=sum(map(len, scores.values())),
        planned=planned,
        differs=" or ".join(filter(None, differs)),
        scores=dict(sorted(scores.items())),
    )


def markdown(rows: list[Row]) -> str:
    """Format the cells of `as_text` as a Markdown table."""
    heads, *body = ([cell.replace("|", "\\|") for cell in cells] for cells in as_text(rows))
    lines = [f"| | {' | '.join(heads[1:])} |", "|---|" + "---:|" * (len(heads) - 1)]
    return "\n".join(lines + [f"| {' | '.join(cells)} |" for cells in body])


def as_text(rows: list[Row]) -> list[list[str]]:
    """Return the header and rows as text: score ± deviation over seeds, a note if runs are missing, and the average."""
    columns = shown(rows)
    averaged = [column for column in columns if column.averaged]
    text = [
        ["", *(column.name for column in columns), f"average of {len(averaged)}"],
        *([row.name, *(_text(row.cells.get(c.name)) for c in columns), _number(row.average(averaged))] for row in rows),
    ]
    return text if averaged else [cells[:-1] for cells in text]


def as_json(rows: list[Row]) -> str:
    """Format the numbers of all rows in the columns that are shown as JSON, with the scores of every run."""
    columns = shown(rows)
    averaged = [column for column in columns if column.averaged]
    content = []
    for row in rows:
        cells = {column.name: row.cells[column.name]._asdict() for column in columns if column.name in row.cells}
        average = {"score": row.average(averaged), "columns": [column.name for column in averaged]}
        content.append({"system": row.name, "source": row.source, "cells": cells, "average": average})
    return json.dumps(content, indent=2, ensure_ascii=False)


def _text(cell: Cell | None) -> str:
    """Format a cell: `61.00 ± 0.71 (4 of 5 runs)`."""
    if cell is None:
        return "–"
    runs = f"{cell.finished} of {cell.planned} runs" if cell.finished != cell.planned else ""
    note = "; ".join(filter(None, (runs, cell.differs)))
    deviation = "" if cell.deviation is None else f" ± {cell.deviation:.2f}"
    return _number(cell.score) + deviation + (f" ({note})" if note else "")


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"
