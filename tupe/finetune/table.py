"""Make the papers' table from a sweep: the median over seeds for each learning rate, then the best rate."""

import json
import math
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from tupe.finetune.columns import COLUMNS, Cell, Column, Row
from tupe.finetune.published import ROWS
from tupe.finetune.runs import SWEEP, Result, Run, result
from tupe.util import check_labels, labelled, read_json

PUBLISHED = Literal["base", "large", "electra", "diet", "xtreme", "roberta", "xlmr"]
Found = tuple[float, Result | None]  # learning rate of a run, and its result if it is finished


def table(
    sweeps: Sequence[str],
    *,
    published: PUBLISHED | None = None,
    by_language: bool = False,
    format: Literal["markdown", "json"] = "markdown",
) -> str:
    """Print the table of sweeps of GLUE or XTREME: medians over the seeds, at the best learning rate.

    tupe table TUPE-A=runs/glue/tupe_a_base runs/glue/bert_a_base --published base

    Args:
        sweeps: [LABEL=]SWEEP, the folders of sweeps.
        published: Add rows of published scores.
        by_language: Add a column per language.
        format: Format of the table; json also has the scores of every run.
    """
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
        metric = next((outcome.metric for _, outcome in found if outcome), "")
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
    for split in sorted({split for _, outcome in found if outcome for split in column.splits(outcome)}):
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
    for run_lr, outcome in found:
        score = outcome and column.score(outcome)
        planned += outcome is None or score is not None  # a finished run may lack this test set
        if score is not None and math.isfinite(score):
            scores.setdefault(run_lr, []).append(score)
            differs[column.differs(outcome)] = None
    medians = {rate: statistics.median(scores[rate]) for rate in sorted(scores) if lr in (None, rate)}
    best = max(medians, key=lambda rate: medians[rate], default=None)
    seed_scores = scores.get(best, [])
    return Cell(
        score=medians.get(best),
        deviation=statistics.stdev(seed_scores) if len(seed_scores) > 1 else None,
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
