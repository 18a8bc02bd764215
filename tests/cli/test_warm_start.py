"""`tupe warm-start`: what it writes loads and holds no optimizer; what is exact, lost and left is said."""

import re

import pytest
import torch

from tests.data.conftest import prepare_made
from tests.samples import HEAD, write_checkpoint
from tupe.analysis.checkpoint import open_encoder
from tupe.analysis.length import loss_by_position
from tupe.cli.main import main


@pytest.fixture
def bert(tmp_path):
    return write_checkpoint(tmp_path / "bert.pt", tmp_path, name="bert_a_tiny")


def test_exact(bert, tmp_path, capsys):
    out = tmp_path / "new.pt"
    assert main(["warm-start", str(bert), "bert_r", "segment=per_head", str(out)]) == 0
    printed = capsys.readouterr().out
    assert "bert_r_tiny segment=per_head" in printed
    assert "exact: the logits of both differ by at most" in printed
    assert f"tupe pretrain DATA --config continue --init-from {out}" in printed
    state = torch.load(out, weights_only=True)
    assert state.get("last_optimizer_state") is None
    assert open_encoder(out).args.relative == "bucketed"


def test_heads_of_a_task_are_left_behind(tmp_path, capsys):
    path = write_checkpoint(tmp_path / "tuned.pt", tmp_path, num_classes=2, name="bert_a_tiny")
    state = torch.load(path, weights_only=True)
    state["model"]["pooler.dense.weight"] = torch.zeros(16, 16)
    torch.save(state, path)
    assert main(["warm-start", str(path), "bert_r", str(tmp_path / "new.pt")]) == 0
    assert f"left behind, as what a task taught: classification_heads.{HEAD}" in capsys.readouterr().out
    new = torch.load(tmp_path / "new.pt", weights_only=True)
    assert not [name for name in new["model"] if "head" in name and "lm_head" not in name]
    assert "pooler.dense.weight" in new["model"]
    assert new["cfg"]["task"]["_name"] == "masked_lm"


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return prepare_made(tmp_path_factory.mktemp("text"), 150, "--vocab-size 120 --valid-documents 6 --max-tokens 30")


@pytest.fixture
def reader(data, tmp_path):
    """A model of that corpus, with 12 positions."""
    symbols = [line.split(" ")[0] for line in (data / "dict.txt").read_text(encoding="utf-8").splitlines()]
    return write_checkpoint(tmp_path / "reader.pt", data, max_positions=12, name="bert_a_tiny", symbols=symbols)


@pytest.mark.parametrize("system", ["tupe_r", "t5 segment=none", "rope"])
def test_fitted(system, reader, data, tmp_path, capsys):
    out = tmp_path / "new.pt"
    command = ["warm-start", str(reader), *system.split(), str(out), "--data", str(data), "--sequences", "70"]
    assert main(command) == 0, capsys.readouterr().err
    printed = capsys.readouterr().out
    assert "not exact: the positions are taken out of the input and calibrated on 70 sequences" in printed
    share = re.search(r"is in the new terms to (\S+)%", printed)
    assert (float(share[1]) > 5) == (system != "rope")
    assert ("rotary positions rotate queries and keys" in printed) == (system == "rope")
    new, before, none = map(float, re.search(r"token: (\S+); before (\S+), and (\S+) without", printed).groups())
    for path, loss in ((reader, before), (out, new)):
        bits, masked = loss_by_position(open_encoder(path), data, 12, 70)
        assert loss == pytest.approx(bits.sum() / masked.sum(), abs=1e-3)
    assert none != before
    assert ("warning: that is worse than the old model without any order" in printed) == (new > none)


def test_without_text(reader, tmp_path, capsys):
    out = tmp_path / "new.pt"
    assert main(["warm-start", str(reader), "tupe_a", str(out), "--positions", "weights"]) == 0
    assert "guessed from the weights" in capsys.readouterr().out
    assert main(["warm-start", str(reader), "tupe_a", str(tmp_path / "drawn.pt"), "--positions", "new"]) == 0
    assert "its positions are lost, and the new ones are drawn" in capsys.readouterr().out
