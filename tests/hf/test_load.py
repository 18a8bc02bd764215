"""Imports of folders that Transformers saved."""

import json

import pytest
import torch

from tupe.checkpoints.load import open_checkpoint
from tupe.hf.export import export
from tupe.hf.load import import_transformers
from tupe.patches.checkpoints import dictionary_sha256, read_dictionary

pytest.importorskip("transformers")


@pytest.fixture
def exported(make_checkpoint, corpus, tmp_path):
    """The folder that a checkpoint was exported to."""
    make_checkpoint(tmp_path / "pretrained.pt")
    export(tmp_path / "pretrained.pt", corpus, tmp_path / "exported", tokenizer=False)
    return tmp_path / "exported"


@pytest.mark.parametrize(("max_positions", "windows"), [(24, (10, 10)), (128, (62, 62)), (256, (64, 128))])
def test_a_model_that_learnt_to_answer_in_transformers(max_positions, windows, make_checkpoint, corpus, tmp_path):
    """A configuration without windows gets windows that fit the positions."""
    from tupe.hf import TupeForQuestionAnswering

    make_checkpoint(tmp_path / "pretrained.pt", max_positions=max_positions)
    export(tmp_path / "pretrained.pt", corpus, tmp_path / "exported", tokenizer=False)
    TupeForQuestionAnswering.from_pretrained(tmp_path / "exported").save_pretrained(tmp_path / "fine-tuned")
    import_transformers(tmp_path / "fine-tuned", tmp_path / "best.pt")
    saved = torch.load(tmp_path / "best.pt", weights_only=True)["cfg"]["task"]
    _, task = open_checkpoint(tmp_path / "best.pt").model(corpus)
    assert (saved["max_query"], saved["doc_stride"]) == windows
    assert saved.keys() == dict(task.cfg).keys()


def test_the_checksum_of_the_dictionary_comes_back(make_checkpoint, corpus, tmp_path):
    """An export carries it, but no dictionary that an import could compare it with."""
    checksum = dictionary_sha256(read_dictionary(corpus / "dict.txt"))
    make_checkpoint(tmp_path / "pretrained.pt", dictionary_sha256=checksum)
    export(tmp_path / "pretrained.pt", corpus, tmp_path / "exported", tokenizer=False)
    import_transformers(tmp_path / "exported", tmp_path / "back.pt")
    assert open_checkpoint(tmp_path / "back.pt").config.dictionary_sha256 == checksum


def test_special_numbers_as_transformers_may_write_them(exported, tmp_path):
    path = exported / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "bos_token_id": None, "eos_token_id": [2]}))
    import_transformers(exported, tmp_path / "back.pt")
    assert (tmp_path / "back.pt").is_file()
