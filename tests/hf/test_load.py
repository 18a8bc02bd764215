"""Imports of folders that Transformers saved."""

import pytest
import torch

from tupe.checkpoints.load import open_checkpoint
from tupe.hf.export import export
from tupe.hf.load import import_folder
from tupe.patches.checkpoints import symbols_sha256

pytest.importorskip("transformers")


def test_a_model_that_learnt_to_answer_in_transformers(make_checkpoint, corpus, tmp_path):
    """A configuration without windows gets those of the task."""
    from tupe.hf import TupeForQuestionAnswering

    make_checkpoint(tmp_path / "pretrained.pt", max_positions=256)
    export(tmp_path / "pretrained.pt", corpus, tmp_path / "exported", no_tokenizer=True)
    TupeForQuestionAnswering.from_pretrained(tmp_path / "exported").save_pretrained(tmp_path / "fine-tuned")
    import_folder(tmp_path / "fine-tuned", tmp_path / "best.pt")
    saved = torch.load(tmp_path / "best.pt", weights_only=True)["cfg"]["task"]
    _, task = open_checkpoint(tmp_path / "best.pt").model(corpus)
    assert (saved["max_query"], saved["doc_stride"]) == (64, 128)
    assert saved.keys() == dict(task.cfg).keys()


def test_classes_that_were_numbered_in_transformers(make_checkpoint, corpus, tmp_path):
    from tupe.hf import TupeForSequenceClassification

    make_checkpoint(tmp_path / "pretrained.pt")
    export(tmp_path / "pretrained.pt", corpus, tmp_path / "exported", no_tokenizer=True)
    names = dict(enumerate(("contradiction", "entailment", "neutral")))
    model = TupeForSequenceClassification.from_pretrained(tmp_path / "exported", id2label=names)
    model.save_pretrained(tmp_path / "classes")
    import_folder(tmp_path / "classes", tmp_path / "classes.pt")
    saved, rows = torch.load(tmp_path / "classes.pt", weights_only=True), model.classifier.out_proj.weight[[0, 2, 1]]
    assert saved["model"]["classification_heads.sentence_classification_head.out_proj.weight"].equal(rows)
    assert saved["cfg"]["task"]["labels_sha256"] == symbols_sha256(["contradiction", "neutral", "entailment"])
