"""From one pre-trained checkpoint: its validation again, and a fine-tuned head by the hub interface."""

import shutil

import pytest
import torch

from tests.commands import finetune, run, train, train_log
from tupe.models import TupeModel


@pytest.fixture(scope="module")
def pretrained(corpus, tmp_path_factory):
    """A `tupe_tiny` that knows the made language, and the log of its training."""
    folder = tmp_path_factory.mktemp("it's a (model), é=[1]")
    done = train(corpus, folder, "--arch", "tupe_tiny", "--max-update", 120, "--dropout", 0, "--attention-dropout", 0)
    return folder, train_log(done.stdout)


def test_validate_reproduces_the_validation_of_training(pretrained, corpus):
    folder, log = pretrained
    done = run(
        "fairseq-validate", corpus, "--user-dir", "tupe", "--task", "masked_lm",
        "--path", folder / "checkpoint_last.pt", "--batch-size", 8, "--valid-subset", "valid", "--log-format", "json",
        "--cpu", "--num-workers", 0,
    )  # fmt: skip
    record = train_log(done.stdout)["valid"][-1]
    assert float(record["valid_loss"]) == pytest.approx(float(log["valid"][-1]["valid_loss"]), abs=5e-3)


def test_finetuned_head_comes_back(pretrained, glue, corpus, tmp_path):
    """Without the checkpoint that the fine-tuning began with."""
    keys = ("optimization.max_epoch=1", f"checkpoint.save_dir={tmp_path}")
    begun = shutil.copy(pretrained[0] / "checkpoint_best.pt", tmp_path / "pretrained.pt")
    assert finetune("CoLA", begun, glue, *keys).returncode == 0
    begun.unlink()
    hub = TupeModel.from_pretrained(
        str(tmp_path), "checkpoint_best.pt", str(glue / "CoLA"),
        sentencepiece_model=str(corpus / "sentencepiece.bpe.model"),
    )  # fmt: skip
    saved = torch.load(tmp_path / "checkpoint_best.pt", weights_only=True)["model"]
    head = hub.model.classification_heads["sentence_classification_head"]
    torch.testing.assert_close(
        head.out_proj.weight, saved["classification_heads.sentence_classification_head.out_proj.weight"]
    )
    assert hub.predict("sentence_classification_head", hub.encode("Anna sees the house .")).shape == (1, 2)
