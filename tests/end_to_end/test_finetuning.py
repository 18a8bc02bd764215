"""A fine-tuned head, by the hub interface."""

import torch

from tests.commands import finetune
from tests.samples import write_checkpoint
from tupe.models import TupeModel


def test_finetuned_head_comes_back(glue, corpus, tmp_path):
    """Without the checkpoint that the fine-tuning began with."""
    keys = ("optimization.max_epoch=1", f"checkpoint.save_dir={tmp_path}")
    symbols = [line.split()[0] for line in (corpus / "dict.txt").read_text().splitlines()]
    begun = write_checkpoint(tmp_path / "pretrained.pt", corpus, symbols=symbols)
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
