"""Compute mean, spread and interval over seeds, and the share of its updates after which a run reaches a loss."""

import math
import statistics
from collections.abc import Sequence
from typing import NamedTuple

from tupe.analysis.curves import TrainingLog, reaches

#: Student's t that 2.5% exceed, of 1, 2, ... degrees of freedom.
_T = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228)


class Mean(NamedTuple):
    """Statistics of `number` values."""

    mean: float
    spread: float | None  # standard deviation, with `number - 1`; None of one value
    # half the 95% confidence interval of the mean by Student's t; None of one value, and of more than 11
    half: float | None
    number: int


def mean(values: Sequence[float]) -> Mean:
    """Return the statistics of one value or more."""
    number = len(values)
    spread = statistics.stdev(values) if number > 1 else None
    half = _T[number - 2] * spread / math.sqrt(number) if spread is not None and number - 2 < len(_T) else None
    return Mean(statistics.fmean(values), spread, half, number)


def share(curve: Sequence[tuple[int, float]], loss: float) -> float | None:
    """Return the share of a run's updates after which its validation loss is first `loss` or less; None if it never is.

    Between validations the loss is on a line. 1 for the run's own final loss, if no earlier one was as low.
    """
    reached = reaches(TrainingLog({}, {update: {"loss": value} for update, value in curve}), loss)
    return None if reached is None else reached / curve[-1][0]
