"""Collect curves of the score against pre-training updates, from the sweeps of checkpoints."""

import itertools

from tupe.analysis.scores import ScoreCurve
from tupe.errors import UserError
from tupe.experiments.table import Row, shown


def score_curves(rows: dict[str, list[Row]], column: str = "") -> dict[str, ScoreCurve]:
    """Return the curve of each system, from the rows of its checkpoints' sweeps (`read_sweep`).

    The score is one column, such as `MNLI-m`, or the papers' average of all.

    Raises:
        UserError: if there is no such column, a sweep lacks scores, two of a system are of the same updates, or the
            sweeps do not have the same columns, so that their averages cannot be compared.
    """
    every = [row for of_system in rows.values() for row in of_system]
    names = [other.name for other in shown(every)]
    if column and column not in names:
        raise UserError(f"there is no column {column} in these sweeps: take one of {', '.join(names)}.")
    columns = [other for other in shown(every) if other.name == column or (not column and other.averaged)]
    found = {}
    for name, of_system in rows.items():
        ordered = sorted(of_system, key=lambda row: row.updates)
        for before, after in itertools.pairwise(ordered):
            if before.updates == after.updates:
                raise UserError(
                    f"{name} has two sweeps after {after.updates:,} updates: give each system its own name."
                )
        values = []
        for row in ordered:
            value = row.average(columns)
            if value is None:
                missing = ", ".join(c.name for c in columns if getattr(row.cells.get(c.name), "score", None) is None)
                raise UserError(
                    f"the sweep of {row.name} has no score of {missing or 'any task'} yet: finish it first."
                )
            values.append(value)
        best = [row.cells[columns[0].name].best if len(columns) == 1 else None for row in ordered]
        spread = tuple(rate and rate.spread for rate in best)
        score = columns[0].name if len(columns) == 1 else f"average of {len(columns)} columns"
        found[name] = ScoreCurve(tuple(row.updates for row in ordered), tuple(values), spread, score)
    return found
