"""Against fairseq's own `masked_lm` on a model of the plugin."""

import math
from types import SimpleNamespace

import pytest
import torch
from fairseq.criterions.masked_lm import MaskedLmConfig, MaskedLmLoss
from fairseq.logging import metrics
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from tests.samples import WORDS, dictionary_of
from tupe.criterions import TupeMaskedLmCriterion
from tupe.models.config import named
from tupe.models.tupe import TupeModel

PAD = 1


@pytest.fixture(scope="module")
def task():
    dictionary = dictionary_of(*WORDS)
    return SimpleNamespace(source_dictionary=dictionary, target_dictionary=dictionary, max_positions=lambda: 16)


@pytest.fixture(scope="module")
def model(task):
    torch.manual_seed(0)
    fields = {"encoder_layers": 1, "encoder_embed_dim": 8, "encoder_ffn_embed_dim": 8, "encoder_attention_heads": 2}
    return TupeModel.build_model(named("tupe_tiny", **fields, dropout=0.0, attention_dropout=0.0), task)


def criterion(cls, task):
    return cls(MaskedLmConfig(tpu=False), task)


def batch(lengths, masked):
    """A batch of sequences of these lengths; `masked` are positions in the flattened batch that are predicted."""
    generator = torch.Generator().manual_seed(len(masked))
    tokens = torch.randint(4, 24, (len(lengths), max(lengths)), generator=generator)
    target = torch.full_like(tokens, PAD)
    for row, length in zip(tokens, lengths):
        row[length:] = PAD
    for position in masked:
        target.view(-1)[position] = 4 + position % 20
    return {
        "net_input": {"src_tokens": tokens, "src_lengths": torch.tensor(lengths)},
        "target": target,
        "masked_tokens": target.flatten().ne(PAD).nonzero().flatten(),
        "ntokens": sum(lengths),
        "nsentences": len(lengths),
    }


def logged(criterion, logs):
    with metrics.aggregate(new_root=True) as meters:
        type(criterion).reduce_metrics(logs)
    return meters.get_smoothed_values()


def gradients(model, loss):
    model.zero_grad()
    loss.backward()
    return [parameter.grad for parameter in model.parameters()]


@pytest.mark.parametrize("lengths", [[6, 6], [6, 4]])
def test_loss_and_gradients_are_those_of_fairseq(task, model, lengths):
    sample = batch(lengths, [1, 2, 7, 9])
    ours, theirs = criterion(TupeMaskedLmCriterion, task), criterion(MaskedLmLoss, task)
    loss, sample_size, log = ours(model, sample)
    expected, expected_size, expected_log = theirs(model, sample)
    assert loss.dtype == torch.float32
    torch.testing.assert_close(loss, expected)
    assert sample_size == expected_size == 4
    torch.testing.assert_close(gradients(model, loss), gradients(model, expected))
    values, expected_values = logged(ours, [log]), logged(theirs, [expected_log])
    assert values["loss"] == pytest.approx(expected_values["loss"])
    assert values["ppl"] == pytest.approx(expected_values["ppl"], rel=1e-2)  # fairseq rounds it


def test_a_batch_without_masked_tokens_has_no_loss_and_no_gradient(task, model):
    ours = criterion(TupeMaskedLmCriterion, task)
    loss, sample_size, log = ours(model, batch([5, 3], []))
    assert loss == 0 and sample_size == 0
    assert all(gradient is not None and not gradient.any() for gradient in gradients(model, loss))
    assert logged(ours, [log])["loss"] == 0.0
    _, _, other = ours(model, batch([5, 3], [1, 2]))
    assert logged(ours, [log, other]) == logged(ours, [other])


@settings(max_examples=20, deadline=None)
@given(st.lists(st.sets(st.integers(0, 9), min_size=1), min_size=1, max_size=4))
def test_accuracy_is_the_share_of_all_masked_tokens(task, model, masked):
    ours = criterion(TupeMaskedLmCriterion, task)
    samples = [batch([5, 5], sorted(positions)) for positions in masked]
    correct = total = loss = 0.0
    for sample in samples:
        with torch.no_grad():
            logits = model(**sample["net_input"])[0].flatten(0, 1)
        target = sample["target"].flatten()
        keep = target != PAD
        correct += float((logits.argmax(-1) == target)[keep].sum())
        loss += float(nn.functional.cross_entropy(logits[keep], target[keep], reduction="sum"))
        total += float(keep.sum())
    with metrics.aggregate(new_root=True) as meters:  # as batches of an epoch, one after the other
        for sample in samples:
            ours.reduce_metrics([ours(model, sample)[2]])
    values = meters.get_smoothed_values()
    assert values["accuracy"] == pytest.approx(100 * correct / total, abs=0.006)
    assert values["loss"] == pytest.approx(loss / total / math.log(2), abs=6e-4)
    assert all(isinstance(values[key], float) for key in ("accuracy", "loss"))
