"""`tupe warm-start`: what it writes loads and holds no optimizer; what is exact, lost and left is said."""

import re

import pytest
import torch

from lab.study import _SECONDS
from tests.data.conftest import prepare_made
from tests.samples import HEAD, write_checkpoint
from tupe.analysis.checkpoint import open_encoder
from tupe.cli.main import main


def test_exact(tmp_path, capsys):
    """Also without a language-model head; what a task taught is left behind."""
    path, out = write_checkpoint(tmp_path / "bert.pt", tmp_path, num_classes=2, name="bert_a_tiny"), tmp_path / "new.pt"
    state = torch.load(path, weights_only=True)
    state["model"]["pooler.dense.weight"] = torch.zeros(16, 16)
    state["model"] = {name: tensor for name, tensor in state["model"].items() if "lm_head" not in name}
    torch.save(state, path)
    assert main(["warm-start", str(path), "bert_r", "segment=per_head", str(out)]) == 0
    printed = capsys.readouterr().out
    assert "bert_r_tiny segment=per_head" in printed
    assert "exact: the features of both differ by at most" in printed and _SECONDS.search(printed)
    assert f"left behind, as parts of a task: classification_heads.{HEAD}" in printed
    assert f"tupe pretrain DATA --config continue --init-from {out}" in printed
    new = torch.load(out, weights_only=True)
    assert new.get("last_optimizer_state") is None
    assert not [name for name in new["model"] if "head" in name]
    assert "pooler.dense.weight" in new["model"]
    assert new["cfg"]["task"]["_name"] == "masked_lm"
    assert open_encoder(out).args.relative == "bucketed"


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return prepare_made(tmp_path_factory.mktemp("text"), 150, "--vocab-size 120 --valid-documents 6 --max-tokens 30")


@pytest.mark.parametrize("text", [True, False])
def test_not_exact(text, data, tmp_path, capsys):
    symbols = [line.split(" ")[0] for line in (data / "dict.txt").read_text(encoding="utf-8").splitlines()]
    bert = write_checkpoint(tmp_path / "reader.pt", data, max_positions=20, name="bert_a_tiny", symbols=symbols)
    options = ["--data", str(data), "--sequences", "70"] if text else []
    assert main(["warm-start", str(bert), "tupe_r", str(tmp_path / "new.pt"), *options]) == 0
    printed = capsys.readouterr().out
    assert ("taken out of the input and fitted on 70 sequences" in printed) == text
    assert ("other old terms are lost, new ones are random" in printed) != text
    rows = [[*map(float, row.split())] for row in re.findall(r"^  \w+(?: positions)? +([\d. ]+)$", printed, re.M)]
    assert len(rows) == 3 * text
    if text:
        better = all(best > max(others) for best, *others in zip(*rows))
        assert ("better than both at every length" in printed) == better != ("warning: not better" in printed)
