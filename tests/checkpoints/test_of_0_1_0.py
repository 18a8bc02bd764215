"""Checkpoints that version 0.1.0 wrote load, are described, resume and export.

Each file holds a model of two layers and width 16, trained for 3 updates on the corpus of tests/conftest.py:
`tupe_tiny.pt` by `fairseq-train`, `diet_rel_tiny.pt` by `fairseq-hydra-train`. `*_after_6.pt` has the weights
that 0.1.0 had after 6 updates.
"""

import shutil
from pathlib import Path

import pytest
import torch

from tests.commands import hydra_train, train, tupe
from tupe.safe_load import safe_load

BEFORE = Path(__file__).parent / "of_0_1_0"
SIZE = {"encoder_layers": 2, "encoder_embed_dim": 16, "encoder_ffn_embed_dim": 32, "encoder_attention_heads": 2}
KEYS = [f"+model.{key}={value}" for key, value in SIZE.items()]


def resume(name, corpus, folder):
    if name == "tupe_tiny":
        flags = [part for key, value in SIZE.items() for part in (f"--{key.replace('_', '-')}", value)]
        return train(corpus, folder, "--arch", name, *flags, "--max-update", 6, "--save-interval-updates", 3)
    return hydra_train(
        corpus, folder, f"model._name={name}", *KEYS, "optimization.max_update=6",
        "checkpoint.save_interval_updates=3", "model.dropout=0.1",
    )  # fmt: skip


@pytest.mark.parametrize("name", ["tupe_tiny", "diet_rel_tiny"])
def test_resumes_to_the_same_weights(name, corpus, tmp_path):
    shutil.copy(BEFORE / f"{name}.pt", tmp_path / "checkpoint_last.pt")
    resume(name, corpus, tmp_path)
    after, expected = (
        safe_load(path)["model"] for path in (tmp_path / "checkpoint_last.pt", BEFORE / f"{name}_after_6.pt")
    )
    assert after.keys() == expected.keys()
    for key, value in expected.items():
        torch.testing.assert_close(after[key], value, rtol=1e-5, atol=1e-6)  # another CPU rounds otherwise
        assert not key.endswith("weight") or not torch.equal(value, safe_load(BEFORE / f"{name}.pt")["model"][key])


@pytest.mark.parametrize("changed", ["attention_window=4", "rotary_dims=-1"])
def test_a_field_that_is_younger_than_the_checkpoint_is_compared(changed, corpus, tmp_path):
    """A field without parameters is refused by its name, since no weight would miss it."""
    shutil.copy(BEFORE / "diet_rel_tiny.pt", tmp_path / "checkpoint_last.pt")
    done = hydra_train(corpus, tmp_path, "model._name=diet_rel_tiny", *KEYS, f"+model.{changed}", check=False)
    assert done.returncode == 1
    assert f"is of another system ({changed.partition('=')[0]}: checkpoint 0, here" in done.stderr


@pytest.mark.parametrize("name", ["tupe_tiny", "diet_rel_tiny"])
def test_is_described_and_exported(name, corpus, tmp_path, capsys):
    assert tupe("describe", BEFORE / f"{name}.pt") == 0
    assert "parameters" in capsys.readouterr().out
    assert tupe("export", BEFORE / f"{name}.pt", corpus, tmp_path / "exported") == 0
    assert (tmp_path / "exported" / "model.safetensors").is_file()
