"""A training on a GPU has its kernels checked for the type that its attention will have."""

from types import SimpleNamespace

import pytest
import torch

from tupe.models import TupeModel, before_training
from tupe.models.electra import ElectraModel
from tupe.models.seq2seq.model import Seq2SeqModel


@pytest.fixture
def asked(monkeypatch):
    """Return what would be checked on the pretended GPU."""
    found = []
    monkeypatch.setenv("TUPE_CHECK_KERNELS", "1")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 1)
    monkeypatch.setattr(before_training, "ensure_checked", lambda device, dtype: found.append((device, dtype)))
    return found


def train(backend="auto", **common):
    given = {"cpu": False, "fp16": False, "bf16": False, "amp": False, **common}
    cfg = SimpleNamespace(common=SimpleNamespace(**given), model=SimpleNamespace(attention_backend=backend))
    before_training.check_kernels(cfg)


@pytest.mark.parametrize(
    ("precision", "dtype"),
    [
        ({}, torch.float32),
        ({"fp16": True}, torch.float16),
        ({"bf16": True}, torch.bfloat16),
        ({"amp": True}, torch.float16),
    ],
)
def test_the_type_of_the_run(asked, precision, dtype):
    train(**precision)
    assert asked == [(torch.device("cuda", 1), dtype)]


@pytest.mark.parametrize("run", [{"backend": "sdpa"}, {"backend": "reference"}, {"cpu": True}])
def test_runs_without_the_kernels(asked, run):
    train(**run)
    assert asked == []


def test_the_variable(asked, monkeypatch):
    monkeypatch.setenv("TUPE_CHECK_KERNELS", "0")
    train()
    assert asked == []


@pytest.mark.parametrize("model", [TupeModel, ElectraModel, Seq2SeqModel])
def test_every_model_asks_before_its_training(model, asked):
    common = SimpleNamespace(cpu=False, fp16=False, bf16=True, amp=False)
    cfg = SimpleNamespace(common=common, model=SimpleNamespace(attention_backend="triton"))
    model.before_training(SimpleNamespace(), cfg)
    assert asked == [(torch.device("cuda", 1), torch.bfloat16)]
