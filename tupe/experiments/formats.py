"""Format the table of a benchmark as Markdown, CSV and JSON, and as cells."""

import csv
import io
import json
from typing import Any

from tupe.experiments.columns import Column
from tupe.experiments.table import Cell, Row, shown


def markdown(rows: list[Row]) -> str:
    """Format the cells of `as_text` as a Markdown table."""
    heads, *body = ([cell.replace("|", "\\|") for cell in cells] for cells in as_text(rows))
    lines = [f"| | {' | '.join(heads[1:])} |", "|---|" + "---:|" * (len(heads) - 1)]
    lines += [f"| {' | '.join(cells)} |" for cells in body]
    failed = failures(rows)
    if failed:
        lines += ["", f"Failed: {len(failed)} run(s).", "", *(f"- {line}" for line in failed)]
    return "\n".join(lines)


def as_text(rows: list[Row]) -> list[list[str]]:
    """Return heads and rows as text: score ± deviation over seeds, with a note where runs or languages are missing.

    The last column is the average, if there is anything to average.
    """
    columns = shown(rows)
    averaged = _averaged(columns)
    text = [
        ["", *(column.name for column in columns), f"average of {len(averaged)}"],
        *([row.name, *(_cell(row.cells.get(c.name)) for c in columns), _number(row.average(averaged))] for row in rows),
    ]
    return text if averaged else [cells[:-1] for cells in text]


def failures(rows: list[Row]) -> list[str]:
    """List the failed runs of each row, with the reason."""
    return [f"{row.name}: {run}: {why}" for row in rows for run, why in row.failed.items()]


def as_csv(rows: list[Row]) -> str:
    """Format as CSV, one line for each system and column, numbers unrounded."""
    names = ("system", "column", "score", "deviation", "lr", "finished", "failed", "planned", "source", "differs")
    text = io.StringIO()
    writer = csv.DictWriter(text, names, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    for row in _content(rows):
        of_row = {name: row[name] for name in ("system", "source")}
        for name, cell in {**row["cells"], "average": row["average"]}.items():
            writer.writerow({**of_row, "column": name, **cell})
    return text.getvalue().rstrip("\n")


def as_json(rows: list[Row]) -> str:
    """Format as JSON, with the scores of every run."""
    return json.dumps(_content(rows), indent=2, ensure_ascii=False)


def _content(rows: list[Row]) -> list[dict[str, Any]]:
    """Return all content of the table, with the failed runs of each row."""
    columns = shown(rows)
    averaged = _averaged(columns)
    content = []
    for row in rows:
        cells = {column.name: _values(row, column) for column in columns if column.name in row.cells}
        failed = [{"task": r.task, "lr": r.lr, "seed": r.seed, "reason": why} for r, why in row.failed.items()]
        average = {"score": row.average(averaged), "columns": [column.name for column in averaged]}
        content.append({"system": row.name, "source": row.source, "cells": cells, "average": average, "failed": failed})
    return content


def _values(row: Row, column: Column) -> dict[str, Any]:
    cell = row.cells[column.name]
    if row.source:
        return {"score": cell.score}
    return {
        "score": cell.score,
        "deviation": cell.best and cell.best.spread,
        "lr": cell.best and cell.best.lr,
        "finished": cell.finished,
        "failed": sum(run.task == column.task for run in row.failed),
        "planned": cell.planned,
        "differs": cell.differs,
        "scores": {f"{rate.lr:g}": list(rate.scores) for rate in cell.rates},
    }


def _averaged(columns: list[Column]) -> list[Column]:
    return [column for column in columns if column.averaged]


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


def _cell(cell: Cell | None) -> str:
    if cell is None:
        return "–"
    text = _number(cell.score)
    if cell.best is not None and cell.best.spread is not None:
        text += f" ± {cell.best.spread:.2f}"
    runs = f"{cell.finished} of {cell.planned} runs" if cell.finished != cell.planned else ""
    said = "; ".join(filter(None, (runs, cell.differs)))
    return f"{text} ({said})" if said else text
