"""A user's module outside the package: its term is a flag and a key, trains, goes on, is looked at, and is refused."""

import json

import pytest
import torch

from tests.commands import ROOT, hydra_train, run, train_log
from tupe.cli.main import main
from tupe.models import TupeModel

OWN = "examples/own_term"
KEYS = ("encoder_layers=1", "encoder_embed_dim=16", "encoder_ffn_embed_dim=16", "encoder_attention_heads=2")


@pytest.fixture(scope="module")
def used(corpus, tmp_path_factory):
    """Folder of a training by `fairseq-train`, and what its process printed."""
    folder = tmp_path_factory.mktemp("own")
    return folder, run("python3", "-m", "tests.examples.use_own_term", corpus, folder).stdout


def test_trained_checked_kept_and_described(used):
    _, printed = used
    seen = json.loads(printed.splitlines()[-1])
    assert (seen["described"], seen["kept"], seen["values"]) == (0, True, 17)
    assert "tisa_kernels: checkpoint 3, here 5" in seen["refused"]
    assert "reset((p_i U^Q)(p_j U^K)^T/sqrt(2d) + tisa(j - i))" in printed
    assert "  tisa_kernels=3" in printed


ELSEWHERE = """
import sys
sys.modules.update(dict.fromkeys(("fairseq", "hydra", "omegaconf", "tupe", "own_term", "torchaudio")))
import torch
from transformers import AutoModel
folder = sys.argv[1]
position = AutoModel.from_pretrained(f"{folder}/exported", trust_remote_code=True).position_bias
torch.testing.assert_close(position(9).relative, torch.load(f"{folder}/values.pt"))
"""


def test_exported_with_its_code(used, tmp_path):
    folder, printed = used
    assert json.loads(printed.splitlines()[-1])["exported"] == 0
    run("python3", "-c", ELSEWHERE, folder, cwd=tmp_path, PYTHONPATH="", HF_HOME=str(tmp_path), HF_HUB_OFFLINE="1")


def test_by_hydra_it_goes_on(used, corpus):
    folder, _ = used
    done = hydra_train(
        corpus, folder, f"common.user_dir={OWN}", "model._name=tupe_tiny", "+model.relative=tisa",
        "+model.tisa_kernels=3", *(f"+model.{key}" for key in KEYS), "optimization.max_update=5",
    )  # fmt: skip
    assert [int(record["num_updates"]) for record in train_log(done.stdout)["train_inner"]] == [4, 5]
    state = torch.load(folder / "checkpoint_last.pt", weights_only=True)
    assert state["model"]["encoder.sentence_encoder.position_bias.relative.height"].shape == (2, 3, 1)


def test_a_checkpoint_imports_nothing(used):
    folder, _ = used
    (folder / "dict.txt").touch()
    with pytest.raises(ValueError, match="tisa"):
        TupeModel.from_pretrained(str(folder), "checkpoint_last.pt", ".")


def test_the_folder_for_scripts_and_commands(monkeypatch, capsys):
    monkeypatch.setenv("TUPE_USER_DIR", str(ROOT / OWN))
    assert main(["user-dir"]) == 0
    assert capsys.readouterr().out == f"{ROOT / OWN}\n"
