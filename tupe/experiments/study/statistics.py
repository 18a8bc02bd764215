"""Compute the interval of a mean over seeds, and the share of its updates after which a run reaches a loss."""

import math
import statistics
from collections.abc import Sequence

from tupe.analysis.curves import TrainingLog, reaches

#: The 97.5% quantile of Student's t for 1, 2, ... degrees of freedom.
_T = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228)


def half_interval(values: Sequence[float]) -> float | None:
    """Return half the 95% confidence interval of the mean by Student's t; None for one value, and for more than 11."""
    number = len(values)
    if not 1 < number < len(_T) + 2:
        return None
    return _T[number - 2] * statistics.stdev(values) / math.sqrt(number)


def share(curve: Sequence[tuple[int, float]], loss: float) -> float | None:
    """Return the share of a run's updates after which its validation loss is first `loss` or less; None if it never is.

    The loss is interpolated linearly between validations. The run's own final loss gives 1, unless it was reached
    before.
    """
    reached = reaches(TrainingLog({}, {update: {"loss": value} for update, value in curve}), loss)
    return None if reached is None else reached / curve[-1][0]
