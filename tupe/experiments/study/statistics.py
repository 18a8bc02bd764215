"""Compute the interval of a mean over seeds, and the share of its updates after which a run reaches a loss."""

import math
import statistics
from collections.abc import Sequence

from scipy.special import stdtrit

from tupe.analysis.curves import TrainingLog, reaches


def half_interval(values: Sequence[float]) -> float | None:
    """Return half the 95% confidence interval of the mean by Student's t; None for fewer than two values."""
    number = len(values)
    return stdtrit(number - 1, 0.975) * statistics.stdev(values) / math.sqrt(number) if number > 1 else None


def share(curve: Sequence[tuple[int, float]], loss: float) -> float | None:
    """Return the share of a run's updates after which its validation loss is first `loss` or less; None if it never is.

    The loss is interpolated linearly between validations. The run's own final loss gives 1, unless it was reached
    before.
    """
    reached = reaches(TrainingLog({}, {update: {"loss": value} for update, value in curve}), loss)
    return None if reached is None else reached / curve[-1][0]
