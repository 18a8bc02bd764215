"""Pre-training over many languages by the real commands: losses by language, resume, the script."""

import pytest
import torch

from tests.commands import hydra_train, train_log
from tests.tasks.test_multilingual_masked_lm import SIZES, write_languages


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write_languages(tmp_path_factory.mktemp("languages"))


def test_losses_by_language_and_a_resumed_run_is_the_same(data, tmp_path):
    """From the middle of the third epoch on, bit for bit."""
    options = ("model._name=diet_abs_tiny", "+model.encoder_layers=1", "optimization.max_update=150",
               "task.tokens_per_sample=9", "checkpoint.save_interval_updates=125",
               "dataset.validate_interval_updates=75")  # fmt: skip
    done = hydra_train(data, tmp_path / "whole", *options, config="multilingual")
    assert "Traceback" not in done.stderr
    for name, size in SIZES.items():
        assert f"{name}: {size} blocks, drawn with probability" in done.stdout
        assert f'"valid_{name}_loss"' in done.stdout
    (saved,) = (tmp_path / "whole").glob("checkpoint_*_125.pt")
    again = hydra_train(data, tmp_path / "again", *options, f"checkpoint.restore_file={saved}", config="multilingual")
    first = train_log(again.stdout)["train_inner"][0]
    assert first["num_updates"] == "126" and first["epoch"] > 2
    whole, resumed = (
        torch.load(tmp_path / name / "checkpoint_last.pt", weights_only=True)["model"] for name in ("whole", "again")
    )
    assert all(torch.equal(whole[name], resumed[name]) for name in whole)
