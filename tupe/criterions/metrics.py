"""The metrics of GLUE, each over a whole data set. Undefined values (of a constant prediction) count as 0.

Accuracy, F1 and Matthews correlation need only three rows of integers, `counts`: for each class its correct
predictions, its examples and its predictions. A sum over batches and workers is exact, whatever the split.
Pearson and Spearman correlation use all predictions and targets, in an order that no split changes.
"""

import math
from collections.abc import Callable

import numpy as np
import torch
from fairseq.data import Dictionary
from fairseq.logging import metrics
from fairseq.logging.meters import MetersDict
from scipy.stats import pearsonr, rankdata
from torch import Tensor


def class_counts(true: Tensor, predicted: Tensor, num_classes: int, labels: Dictionary | None = None) -> Tensor:
    """Return `counts` `(3, num_classes)`, int64, of the classes `true` and `predicted`, `(N,)`.

    If the first of two `labels` is written `1`, the columns are swapped, so that the positive class is the second:
    fairseq-preprocess numbers the classes by frequency.
    """
    right = true.eq(predicted).long()
    each = torch.ones_like(right)
    counts = right.new_zeros(3, num_classes)
    counts.scatter_add_(1, torch.stack((true, true, predicted)), torch.stack((right, each, each)))
    return counts.flip(1) if labels and num_classes == 2 and labels.index("1") == labels.nspecial else counts


def accuracy(counts: list[list[int]]) -> float:
    """Return the fraction of correct predictions."""
    correct, total = sum(counts[0]), sum(counts[1])
    return correct / total if total else 0.0


def _f1_by_class(counts: list[list[int]]) -> list[float | None]:
    """Compute the harmonic mean of precision and recall of each class; `None` if it neither occurs nor is predicted."""
    hits, true, predicted = counts
    return [2 * hit / (t + p) if t + p else None for hit, t, p in zip(hits, true, predicted)]


def f1(counts: list[list[int]]) -> float:
    """Compute the F1 of class 1."""
    return _f1_by_class(counts)[1] or 0.0


def macro_f1(counts: list[list[int]]) -> float:
    """Compute the mean F1 of the classes that occur or are predicted."""
    found = [score for score in _f1_by_class(counts) if score is not None]
    return sum(found) / len(found) if found else 0.0


def matthews(counts: list[list[int]]) -> float:
    """Compute the Matthews correlation of any number of classes (Gorodkin 2004, R_K)."""
    hits, true, predicted = counts
    total, correct = sum(true), sum(hits)
    covariance = correct * total - sum(t * p for t, p in zip(true, predicted))
    variances = (total**2 - sum(t * t for t in true)) * (total**2 - sum(p * p for p in predicted))
    return covariance / math.sqrt(variances) if variances else 0.0


def pearson(x: np.ndarray, y: np.ndarray) -> float:
    """Compute the linear correlation of two `(N,)` float64 arrays."""
    return float(pearsonr(x, y).statistic) if _varies(x) and _varies(y) else 0.0


def spearman(x: np.ndarray, y: np.ndarray) -> float:
    """Compute the Pearson correlation of the ranks; equal values share the mean of their ranks.

    The predictions `x` of equal texts differ by rounding between batches, so `x` is rounded to five digits.
    """
    if not (_varies(x) and _varies(y)):
        return 0.0
    return pearson(rankdata(np.round(x / np.abs(x).max(), 5)), rankdata(y))


#: Metrics by name, of two arrays.
REGRESSION_METRICS = {"pearson": pearson, "spearman": spearman}
REGRESSION_METRICS["pearson_and_spearman"] = lambda x, y: (pearson(x, y) + spearman(x, y)) / 2


def class_metrics(num_classes: int) -> dict[str, Callable[[list[list[int]]], float]]:
    """Return the metrics of `counts` by name."""
    two = {"f1": f1, "acc_and_f1": lambda counts: (accuracy(counts) + f1(counts)) / 2}
    return {"accuracy": accuracy, "macro_f1": macro_f1, "mcc": matthews, **(two if num_classes == 2 else {})}


def detection(counts: list[list[int]]) -> dict[str, float]:
    """Compute the fractions of right and wrong decisions on replaced tokens.

    The rows of `counts` are the original, the replaced and the special tokens by score, in an even number of bins each.
    The upper half of the bins is classified as replaced; special tokens are original.
    """
    half = len(counts[0]) // 2
    below, above = ([sum(row[part]) for row in counts] for part in (slice(half), slice(half, None)))
    true_negative, false_positive = below[0] + below[2], above[0] + above[2]
    false_negative, true_positive = below[1], above[1]
    original, replaced = true_negative + false_positive, false_negative + true_positive
    shares = {
        "replaced_share": (replaced, original + replaced),
        "disc_accuracy": (true_negative + true_positive, original + replaced),
        "disc_recall": (true_positive, replaced),
        "disc_specificity": (true_negative, original),
        "disc_precision": (true_positive, false_positive + true_positive),
    }
    return {name: part / whole if whole else 0.0 for name, (part, whole) in shares.items()}


def area_under_curve(counts: list[list[int]]) -> float:
    """Return how often one of `counts[1]` is in a higher bin than one of `counts[0]`; the same bin counts half."""
    below = pairs = 0
    for negative, positive in zip(*counts[:2]):
        pairs += positive * (2 * below + negative)
        below += negative
    return pairs / (2 * below * sum(counts[1])) if below and sum(counts[1]) else 0.0


def totals(logging_outputs: list[dict], *names: str) -> list[float]:
    """Sum the workers' values under each name, as floats: meters of tensors would be float32 and wait for the GPU."""
    return [float(sum(log[name] for log in logging_outputs)) for name in names]


def log_percent(name: str, counts: str, metric: Callable[[list[list[int]]], float]) -> None:
    """Log `metric` in percent, computed at every interval from the sum that is logged as `counts`."""

    def percent(meters: dict) -> float:
        total = meters[counts].sum  # 0 after a reset
        return 100 * metric(total.tolist()) if torch.is_tensor(total) else 0.0

    metrics.log_derived(name, percent)


def _varies(values: np.ndarray) -> bool:
    return len(values) > 0 and bool(np.isfinite(values).all()) and values.min() < values.max()


class ExamplesMeter(MetersDict._DerivedMeter):
    """Values of each example, such as prediction and target, by the example's index.

    A repeated example replaces its values, so fairseq's meter `valid`, which outlives a validation, stays as small as
    the data set. The class derives from a derived meter because fairseq's checkpoints leave those out.
    """

    def __init__(self) -> None:
        super().__init__(fn=lambda meters: len(self.examples))
        self.examples: dict[int, list[float]] = {}

    def update(self, rows: Tensor) -> None:
        """Add rows `(N, 1 + k)`: the example's index, then its values."""
        for number, *values in rows.tolist():
            self.examples[int(number)] = values

    def arrays(self, columns: int = 2) -> np.ndarray:
        """Return the values of the examples in the order of their indices: `(columns, N)`."""
        return np.array([self.examples[number] for number in sorted(self.examples)]).reshape(-1, columns).T


def log_examples(logging_outputs: list[dict]) -> bool:
    """Log the `examples` of all workers, `(N, 1 + k)` each, and return whether there are any.

    A worker with a dummy batch logs a `sample_size` of 0, and its examples do not count.
    """
    if "examples" not in logging_outputs[0]:
        return False
    rows = torch.cat([log["examples"].cpu() for log in logging_outputs if log["sample_size"]])
    metrics.log_custom(ExamplesMeter, "_examples", rows)
    return True
