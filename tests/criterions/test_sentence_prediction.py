"""The loss, and the metrics of the whole data set whatever batches and workers it is split into."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from fairseq.logging import metrics
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn import metrics as sklearn_metrics
from torch import nn

from tests.samples import dictionary_of
from tupe.criterions import TupeSentencePredictionCriterion
from tupe.criterions.metrics import log_examples
from tupe.criterions.sentence_prediction import TupeSentencePredictionCriterionConfig


def criterion(regression_target=False, labels=("0", "1")):
    dictionary = dictionary_of(*labels)
    task = SimpleNamespace(label_dictionary=dictionary, target_dictionary=dictionary)
    config = TupeSentencePredictionCriterionConfig(regression_target=regression_target)
    return TupeSentencePredictionCriterion(config, task)


class Recalls(nn.Module):
    """Takes its scores from the tokens' first column, the number of the example."""

    def __init__(self, scores):
        super().__init__()
        self.scores = nn.Parameter(torch.as_tensor(scores, dtype=torch.float32))
        self.classification_heads = {"sentence_classification_head": None}

    def forward(self, src_tokens, features_only, classification_head_name, num_tokens, pairs):
        assert features_only and classification_head_name == "sentence_classification_head"
        self.num_tokens = num_tokens
        return self.scores[src_tokens[:, 0]], {}


def batch(numbers, target):
    numbers = torch.tensor(numbers)
    return {
        "id": numbers,
        "net_input": {"src_tokens": numbers[:, None]},
        "target": torch.as_tensor(target)[numbers],
        "ntokens": len(numbers),
    }


def evaluate(loss, model, target, batches, workers=1):
    """Validates on several workers, round by round; one without a batch logs nothing. A batch is a list of numbers."""
    loss.eval()
    with metrics.aggregate(new_root=True) as meters, torch.no_grad():
        for start in range(0, len(batches), workers):
            log_round(loss, [loss(model, batch(numbers, target))[2] for numbers in batches[start : start + workers]])
    return meters.get_smoothed_values()


def log_round(loss, logs, task=None):
    """Reduce the logs of a round as fairseq's trainer does."""
    if loss.logging_outputs_can_be_summed():
        logs = [{key: sum(torch.as_tensor(log[key]).double() for log in logs) for key in logs[0]}]
    loss.reduce_metrics(logs) if task is None else task.reduce_metrics(logs, loss)


@st.composite
def splits(draw):
    """A data set's size, its examples in a random order cut into batches, a number of workers, a random generator."""
    size = draw(st.integers(1, 24))
    order = draw(st.permutations(range(size)))
    generator = np.random.default_rng(draw(st.integers(0, 2**32)))
    cuts = sorted(draw(st.sets(st.integers(1, size - 1)))) if size > 1 else []
    return size, [order[a:b] for a, b in zip([0, *cuts], [*cuts, size])], draw(st.integers(1, 4)), generator


@settings(deadline=None)
@given(splits(), st.integers(2, 4))
def test_class_metrics_do_not_depend_on_the_split(split, num_classes):
    size, batches, workers, random = split
    target = random.integers(num_classes, size=size)
    model = Recalls(random.normal(size=(size, num_classes)))
    whole = evaluate(criterion(), model, target, [list(range(size))])
    parts = evaluate(criterion(), model, target, batches, workers)
    assert parts.pop("loss") == pytest.approx(whole.pop("loss"), abs=2e-3)
    assert parts == whole
    predicted = model.scores.argmax(-1).tolist()
    assert whole["accuracy"] == pytest.approx(100 * sklearn_metrics.accuracy_score(target, predicted))
    assert whole["mcc"] == pytest.approx(100 * sklearn_metrics.matthews_corrcoef(target, predicted), abs=1e-9)
    assert ("f1" in whole) == (num_classes == 2)
    if num_classes == 2:
        f1 = 100 * sklearn_metrics.f1_score(target, predicted, zero_division=0)
        assert whole["f1"] == pytest.approx(f1)
        assert whole["acc_and_f1"] == pytest.approx((whole["accuracy"] + f1) / 2)


@settings(deadline=None)
@given(splits())
def test_correlations_do_not_depend_on_the_split(split):
    size, batches, workers, random = split
    target = random.integers(51, size=size) / 10
    model = Recalls(random.normal(size=(size, 1)).round(2))
    whole = evaluate(criterion(True), model, target, [list(range(size))])
    parts = evaluate(criterion(True), model, target, batches, workers)
    assert parts.pop("loss") == pytest.approx(whole.pop("loss"), abs=2e-3)
    assert parts == whole
    if len(set(target)) > 1:
        predicted = model.scores.detach().double().flatten().numpy()
        pearson, spearman = 100 * stats.pearsonr(predicted, target)[0], 100 * stats.spearmanr(predicted, target)[0]
        assert whole["pearson"] == pytest.approx(pearson, abs=1e-9)
        assert whole["spearman"] == pytest.approx(spearman, abs=1e-9)
        assert whole["pearson_and_spearman"] == pytest.approx((pearson + spearman) / 2, abs=1e-9)


def test_the_positive_class_of_f1_is_the_one_written_1():
    """fairseq-preprocess puts the more frequent label first, so that class 0 may be the label 1."""
    target, scores = [0, 0, 0, 1], [[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 0.0]]
    positive_is_class_1 = evaluate(criterion(labels=("0", "1")), Recalls(scores), target, [[0, 1, 2, 3]])
    positive_is_class_0 = evaluate(criterion(labels=("1", "0")), Recalls(scores), target, [[0, 1, 2, 3]])
    assert positive_is_class_1["f1"] == 0.0
    assert positive_is_class_0["f1"] == pytest.approx(100 * 2 / 3)
    assert positive_is_class_0["mcc"] == positive_is_class_1["mcc"]


def test_the_loss_is_cross_entropy_in_bits_and_the_gradient_is_its():
    model, loss = Recalls([[0.0, 0.0], [2.0, 0.0]]), criterion()
    value, sample_size, log = loss(model, batch([0, 1], [0, 0]))
    value.backward()
    assert sample_size == 2
    assert log["counts"].shape == (3, 2)  # not (C, C): a checkpoint keeps four of them
    assert value.item() == pytest.approx(math.log(2) + math.log(1 + math.exp(-2)))
    torch.testing.assert_close(model.scores.grad[0], torch.tensor([-0.5, 0.5]))
    with metrics.aggregate(new_root=True) as meters:
        loss.reduce_metrics([log])
    assert meters.get_smoothed_value("loss") == round(value.item() / 2 / math.log(2), 3)


def test_the_loss_of_regression_is_the_squared_error():
    model, loss = Recalls([[0.5], [2.0]]), criterion(regression_target=True)
    value, _, log = loss(model, batch([0, 1], np.array([1.5, 2.0])))
    value.backward()
    assert value.item() == 1.0
    assert model.scores.grad.flatten().tolist() == [-2.0, 0.0]
    with metrics.aggregate(new_root=True) as meters:
        loss.reduce_metrics([log])
    assert meters.get_smoothed_values() == {"loss": 0.5}


def test_examples_of_a_dummy_batch_do_not_count():
    real, dummy = ({"examples": torch.tensor([[0, value, value]]), "sample_size": value} for value in (1, 0))
    with metrics.aggregate(new_root=True) as meters:
        log_examples([real, dummy])
    assert meters["_examples"].examples == {0: [1, 1]}


def test_metrics_survive_a_reset_and_a_checkpoint():
    """fairseq resets its meters each epoch, also one whose updates all overflow, and saves them in checkpoints."""
    for regression, target, scores in ((False, [0, 1], [[1.0, 0.0]] * 2), (True, np.array([1.0, 2.0]), [[1.0], [3.0]])):
        loss = criterion(regression).eval()
        with metrics.aggregate(new_root=True) as meters, torch.no_grad():
            loss.reduce_metrics([loss(Recalls(scores), batch([0, 1], target))[2]])
            before = meters.get_smoothed_values()
            saved = meters.state_dict()
            meters.reset()
            meters.get_smoothed_values()
            meters.load_state_dict(saved)
            loss.reduce_metrics([loss(Recalls(scores), batch([0, 1], target))[2]])
        assert meters.get_smoothed_values() == before
