"""The operations of a batch against those that PyTorch counts, and the peaks of devices."""

from types import SimpleNamespace

import pytest
import torch
from fairseq.criterions.masked_lm import MaskedLmConfig
from fairseq.logging import metrics
from torch.utils.flop_counter import FlopCounterMode

from tests.samples import dictionary_of
from tupe.criterions import TupeMaskedLmCriterion, throughput
from tupe.models import TupeModel
from tupe.models.config import CONFIGS

LENGTH, ROWS, PREDICTED = 64, 4, 40


def task():
    dictionary = dictionary_of(*map(str, range(200)))
    return SimpleNamespace(source_dictionary=dictionary, target_dictionary=dictionary, max_positions=lambda: LENGTH)


def model(name="tupe_a_tiny", **fields):
    torch.manual_seed(0)
    fields = {"encoder_layers": 3, "encoder_embed_dim": 64, "encoder_ffn_embed_dim": 128, **fields}
    return TupeModel.build_model(CONFIGS[name](**fields, attention_backend="reference"), task())


def batch():
    tokens = torch.randint(4, 200, (ROWS, LENGTH))
    target = torch.full_like(tokens, 1)
    target.view(-1)[:PREDICTED] = 5
    net_input = {"src_tokens": tokens, "src_lengths": torch.full((ROWS,), LENGTH)}
    return {"net_input": net_input, "target": target, "ntokens": ROWS * LENGTH, "nsentences": ROWS}


@pytest.mark.parametrize("name", ["bert_a_tiny", "tupe_tiny", "linformer_tiny"])
def test_operations_are_those_that_pytorch_counts(name):
    """Up to what is left out: the position terms, once a batch; Linformer's projection, and its fewer keys."""
    built = model(name)
    counter = FlopCounterMode(display=False)
    with counter, torch.backends.mkldnn.flags(enabled=False):  # the counter does not know its products
        TupeMaskedLmCriterion(MaskedLmConfig(tpu=False), task())(built, batch())[0].backward()
    estimate = throughput.training_flops(built, ROWS * LENGTH, LENGTH, PREDICTED)
    assert estimate == pytest.approx(counter.get_total_flops(), rel=0.01 if name == "bert_a_tiny" else 0.15)


@pytest.mark.parametrize(
    ("name", "fields"),
    [("deberta_tiny", {}), ("shaw_tiny", {}), ("linformer_tiny", {"linformer_k": LENGTH})],
)
def test_what_no_token_is_multiplied_by_is_no_operation_of_a_token(name, fields):
    found, plain = (throughput.training_flops(of, 8, LENGTH, 2) for of in (model(name, **fields), model("bert_a_tiny")))
    assert found == plain


@pytest.mark.parametrize(
    ("name", "teraflops"),
    [
        ("NVIDIA H100 80GB HBM3", 989),
        ("NVIDIA H100 PCIe", 756),
        ("h100 pcie", 756),
        ("NVIDIA H200", 989),
        ("NVIDIA A100-SXM4-80GB", 312),
        ("NVIDIA A10", 125),
        ("Tesla V100-SXM2-16GB", 125),
        ("NVIDIA L4", 121),
        ("NVIDIA L40S", 362),
    ],
)
def test_peak(name, teraflops):
    assert throughput.peak_flops(name) == teraflops * 1e12


@pytest.mark.parametrize("name", ["NVIDIA GeForce RTX 9990", "", "A1000"])
def test_unknown_peak(name):
    assert throughput.peak_flops(name) is None


def logged(criterion, built):
    with metrics.aggregate(new_root=True) as meters:
        for _ in range(2):  # a speed is of the time since the first
            criterion.reduce_metrics([criterion(built, batch())[2]])
        return meters.get_smoothed_values()


def test_share_is_logged_in_training_with_16_bits_where_the_peak_is_known(monkeypatch):
    criterion, built = TupeMaskedLmCriterion(MaskedLmConfig(tpu=False), task()), model()
    assert "mfu" not in logged(criterion, built)  # a CPU
    monkeypatch.setattr(throughput, "_peak", lambda device: 1e12)
    assert "mfu" not in logged(criterion, built)  # 32 bits
    built.bfloat16()
    assert 0 < logged(criterion, built)["mfu"] < 100
    criterion.eval()
    assert "mfu" not in logged(criterion, built)


def test_all_processes_log_the_same_keys_whatever_their_device(monkeypatch):
    """fairseq sums the log over the processes, and would never end where one has a key more than another."""
    criterion, built = TupeMaskedLmCriterion(MaskedLmConfig(tpu=False), task()), model().bfloat16()
    unknown = criterion(built, batch())[2]
    monkeypatch.setattr(throughput, "_peak", lambda device: 1e12)
    known = criterion(built, batch())[2]
    assert unknown.keys() == known.keys()
    assert unknown["seconds_at_peak"] == 0 < known["seconds_at_peak"]


def test_padding_is_a_share_of_the_batch():
    criterion, sample = TupeMaskedLmCriterion(MaskedLmConfig(tpu=False), task()), batch()
    sample["net_input"]["src_tokens"][:, LENGTH // 4 :] = 1
    sample["ntokens"] = ROWS * LENGTH // 4
    sample["target"][:, LENGTH // 4 :] = 1
    with metrics.aggregate(new_root=True) as meters:
        criterion.reduce_metrics([criterion(model(), sample)[2]])
        assert meters.get_smoothed_values()["padding"] == 75.0
