"""From one pre-trained checkpoint: classification, a regression, validation, the hub interface, and what is refused."""

import json
import shutil

import pytest
import torch

from tests.commands import finetune, run, train, train_log
from tupe.finetune.runs import quoted
from tupe.models import TupeModel


@pytest.fixture(scope="module")
def pretrained(corpus, tmp_path_factory):
    """A `tupe_tiny` that knows the made language, and the log of its training."""
    folder = tmp_path_factory.mktemp("it's a (model), é=[1]")
    done = train(corpus, folder, "--arch", "tupe_tiny", "--max-update", 120, "--dropout", 0, "--attention-dropout", 0)
    return folder, train_log(done.stdout)


def by_script(*arguments):
    return run("bash", "scripts/finetune_glue.sh", *arguments, "dataset.num_workers=0", check=False)


def test_classification_and_regression(pretrained, glue, tmp_path):
    keys = ("optimization.max_epoch=3", "optimization.lr=[0.001]", "common.log_format=json")
    for command, task, metric in ((by_script, "CoLA", "mcc"), (finetune, "STS-B", "pearson")):
        folder = tmp_path / "it's a (run), é=[1]" / task
        checkpoint = pretrained[0] / "checkpoint_best.pt"
        done = command(task, checkpoint, glue, *keys, f"checkpoint.save_dir={quoted(folder)}")
        result = json.loads((folder / "result.json").read_text())
        valid = train_log(done.stdout)["valid"]
        scores = [float(record[f"valid_{metric}"]) for record in valid]
        assert result["metric"] == metric
        assert result["score"] == pytest.approx(max(scores), abs=1e-3)
        assert scores[result["epoch"] - 1] == max(scores)
        assert done.stdout.splitlines()[-1].startswith(f"{task}: {metric} {result['score']:.2f} at epoch")
        assert not (folder / "checkpoint_last.pt").exists()
        assert float(valid[-1]["valid_loss"]) < 1.2


def test_validate_reproduces_the_validation_of_training(pretrained, corpus):
    folder, log = pretrained
    done = run(
        "fairseq-validate", corpus, "--user-dir", "tupe", "--task", "masked_lm",
        "--path", folder / "checkpoint_last.pt", "--batch-size", 8, "--valid-subset", "valid", "--log-format", "json",
        "--cpu", "--num-workers", 0,
    )  # fmt: skip
    record = train_log(done.stdout)["valid"][-1]
    assert float(record["valid_loss"]) == pytest.approx(float(log["valid"][-1]["valid_loss"]), abs=5e-3)


def test_hub_interface(pretrained, corpus):
    hub = TupeModel.from_pretrained(str(pretrained[0]), data_name_or_path=str(corpus))
    hub.eval()
    tokens = hub.encode("Anna sees the house .")
    assert hub.decode(tokens) == "Anna sees the house ."
    assert hub.extract_features(tokens).shape == (1, len(tokens), 128)
    assert len(hub.extract_features(tokens, return_all_hiddens=True)) == 5
    filled = hub.fill_mask("Anna sees the house <mask> Bob likes a red car .", topk=10)
    assert "Anna sees the house and Bob likes a red car ." in [text for text, _, _ in filled]
    assert [p for _, p, _ in filled] == sorted((p for _, p, _ in filled), reverse=True)
    hub.register_classification_head("three", num_classes=3)
    assert torch.exp(hub.predict("three", tokens)).sum().item() == pytest.approx(1, abs=1e-5)


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
