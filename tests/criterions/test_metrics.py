"""Metrics where they are undefined or at the ends of numbers; test_sentence_prediction.py has the others."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from sklearn import metrics as sklearn_metrics

from tupe.criterions.metrics import ExamplesMeter, accuracy, class_counts, f1, macro_f1, matthews, pearson, spearman


def test_rounding_makes_no_ranks():
    """Equal texts in batches of other sizes."""
    x, y = np.array([0.2, 0.2, 0.2, 0.5]), np.array([3.0, 1.0, 2.0, 4.0])
    noisy = x * (1 + np.array([0, 2e-7, -3e-7, 1e-7]))
    assert spearman(noisy, y) == pytest.approx(stats.spearmanr(x, y)[0], abs=1e-12) != stats.spearmanr(noisy, y)[0]
    assert spearman(noisy[:3], y[:3]) == 0


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("values", [[], [1.0], [0.1, 0.1, 0.1], [1.0, math.nan, 2.0], [1.0, math.inf, 2.0]], ids=str)
def test_an_undefined_correlation_is_zero_without_a_warning(values):
    x, y = np.array(values), np.arange(len(values), dtype=float)
    assert pearson(x, y) == spearman(x, y) == pearson(y, x) == spearman(y, x) == 0.0


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("scale", [1e-300, 1e-30, 1e30, 1e150])
def test_the_scale_of_the_predictions_changes_nothing(scale):
    x, y = np.array([1.0, 2.0, 4.0]), np.array([1.0, 3.0, 2.0])
    assert pearson(scale * x, y) == pytest.approx(pearson(x, y))
    assert spearman(scale * x, y) == spearman(x, y)


@pytest.mark.parametrize("counts", [[[0, 0]] * 3, [[3, 0], [3, 2], [5, 0]], [[0, 4]] * 3])
def test_undefined_counts_are_zero(counts):
    assert matthews(counts) == 0.0
    assert all(isinstance(metric(counts), float) for metric in (accuracy, f1, matthews))


def test_an_example_met_again_replaces_itself():
    meter = ExamplesMeter()
    meter.update(torch.tensor([[7, 0.5, 1.0], [2, 0.25, 3.0]]))
    meter.update(torch.tensor([[7, 0.75, 1.0]]))
    predictions, targets = meter.arrays()
    assert predictions.tolist() == [0.25, 0.75]
    assert targets.tolist() == [3.0, 1.0]


@given(st.data(), st.integers(2, 5))
def test_macro_f1_equals_scikit_learn(data, num_classes):
    pairs = st.tuples(*[st.integers(0, num_classes - 1)] * 2)
    true, predicted = zip(*data.draw(st.lists(pairs, min_size=1, max_size=40)))
    counts = class_counts(torch.tensor(true), torch.tensor(predicted), num_classes).tolist()
    expected = sklearn_metrics.f1_score(true, predicted, average="macro", zero_division=0)
    assert macro_f1(counts) == pytest.approx(expected)
