"""`tupe warm-start`: the checkpoint that it writes loads, trains on, and holds no optimizer; what is left is said."""

import pytest
import torch

from tests.samples import HEAD, write_checkpoint
from tupe.analysis.checkpoint import open_encoder
from tupe.cli.main import main


@pytest.fixture
def bert(tmp_path):
    return write_checkpoint(tmp_path / "bert.pt", tmp_path, name="bert_a_tiny")


def test_exact(bert, tmp_path, capsys):
    out = tmp_path / "new.pt"
    assert main(["warm-start", str(bert), str(out), "bert_r", "segment=per_head"]) == 0
    printed = capsys.readouterr().out
    assert "bert_r_tiny segment=per_head" in printed
    assert "exact: the logits of both differ by at most" in printed
    assert f"checkpoint.finetune_from_model={out} task.tokens_per_sample=32" in printed
    state = torch.load(out, weights_only=True)
    assert state.get("last_optimizer_state") is None
    old, new = open_encoder(bert), open_encoder(out)
    assert new.args.relative == "bucketed"
    tokens = torch.randint(4, 24, (2, 32))
    torch.testing.assert_close(new(tokens)[0], old(tokens)[0], rtol=0, atol=1e-6)


def test_heads_of_a_task_are_left_behind(tmp_path, capsys):
    path = write_checkpoint(tmp_path / "tuned.pt", tmp_path, num_classes=2, name="bert_a_tiny")
    state = torch.load(path, weights_only=True)
    state["model"]["pooler.dense.weight"] = torch.zeros(16, 16)
    torch.save(state, path)
    assert main(["warm-start", str(path), str(tmp_path / "new.pt"), "bert_r"]) == 0
    assert f"left behind, as what a task taught: classification_heads.{HEAD}" in capsys.readouterr().out
    new = torch.load(tmp_path / "new.pt", weights_only=True)
    assert not [name for name in new["model"] if "head" in name and "lm_head" not in name]
    assert "pooler.dense.weight" in new["model"]
    assert new["cfg"]["task"]["_name"] == "masked_lm"
