"""Checkpoints are compared with the run, and whole after a kill and on a full disk."""

import hashlib
import os
import shutil
from argparse import Namespace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from fairseq import checkpoint_utils
from fairseq.data import Dictionary
from fairseq.tasks.translation import TranslationConfig, TranslationTask

from tests.samples import FIELDS, dictionary_of
from tupe.models.config import named
from tupe.models.seq2seq.model import Seq2SeqModel
from tupe.patches.checkpoints import compare, record_facts
from tupe.util import UserError


def test_an_encoder_begins_no_electra():
    state = {"cfg": {"model": {"_name": "tupe_tiny", "dictionary_sha256": None}}, "model": {}}
    task, name = SimpleNamespace(source_dictionary=Dictionary()), "electra_tupe_r_tiny"
    with pytest.raises(UserError, match=r"has another system \(.*generator_size: checkpoint has none, here"):
        compare("a.pt", state, named(name), task)


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_kill_while_the_last_checkpoint_is_copied(train, trained, tmp_path, monkeypatch):
    last = tmp_path / "checkpoint_last.pt"
    last.write_bytes((trained / "checkpoint_last.pt").read_bytes())
    before = digest(last)

    def killed(source, target):
        Path(target).write_bytes(Path(source).read_bytes()[:1000])
        raise SystemExit

    monkeypatch.setattr(shutil, "copyfile", killed)
    with pytest.raises(SystemExit):
        train(tmp_path, "--max-update", 5)
    assert digest(last) == before


@pytest.mark.parametrize("arch", ["tupe_tiny", "roberta"])  # fairseq's own model trains too
def test_what_a_killed_save_left_is_deleted(arch, train, tmp_path):
    left = tmp_path / ".checkpoint_last.pt.7.part"
    left.touch()
    train(tmp_path, "--max-update", 1, arch=arch)
    assert not left.exists()


def test_disk_that_is_full_when_a_checkpoint_is_written(tmp_path):
    """fairseq writes three times into one file, and renames it."""
    last = tmp_path / "checkpoint_last.pt"
    last.write_bytes(b"the one before")
    (tmp_path / f".{last.name}.{os.getpid()}.part").symlink_to("/dev/full")
    with pytest.raises(Exception, match=r"fail|space"):
        checkpoint_utils.torch_persistent_save({"weight": torch.zeros(1000)}, str(last))
    assert last.read_bytes() == b"the one before"
    assert [path.name for path in tmp_path.iterdir()] == [last.name]


def test_a_checkpoint_of_the_other_direction(tmp_path):
    """A dictionary of both languages fits either, so fairseq alone translates German as if it were English."""
    path, other, config = tmp_path / "x.pt", tmp_path / "y.pt", named("seq2seq_tupe_r_tiny", **FIELDS)
    tasks = {
        pair: TranslationTask(
            TranslationConfig(left_pad_source=False, source_lang=pair[0], target_lang=pair[1]),
            Dictionary(), Dictionary(),
        )
        for pair in (("en", "de"), ("de", "en"))
    }  # fmt: skip
    model = Seq2SeqModel.build_model(config, tasks["en", "de"])
    cfg = {"model": vars(config), "task": {"_name": "translation", "source_lang": "en", "target_lang": "de"}}
    state = {"cfg": cfg, "extra_state": {}, "optimizer_history": [{"best_loss": 0}], "model": model.state_dict()}
    torch.save(state, path)
    checkpoint_utils.load_model_ensemble([str(path)] * 2, task=tasks["en", "de"])
    refused = pytest.raises(UserError, match=r"x\.pt was trained with another source language .*\(en, not de\)")
    with refused:
        checkpoint_utils.load_model_ensemble([str(path)], task=tasks["de", "en"])
    cfg["task"].update(source_lang="de", target_lang="en")
    torch.save(state, other)
    with refused:  # nor in an ensemble
        checkpoint_utils.load_model_ensemble([str(other), str(path), str(other)], task=tasks["de", "en"])


def test_another_target_dictionary_of_the_same_size():
    """The source's is the same: its checksum says nothing of the target's."""
    words, others = dictionary_of("word"), dictionary_of("other")
    config = named("seq2seq_tupe_r_tiny", **FIELDS, max_source_positions=16)
    task = TranslationTask(TranslationConfig(left_pad_source=False), words, words)
    record_facts(Namespace(model=config, task={}), task)
    assert (config.max_source_positions, config.max_target_positions) == (16, 1024)
    assert Seq2SeqModel.build_model(config, task)
    task.tgt_dict = others
    with pytest.raises(UserError, match=r"trained with another dictionary"):
        Seq2SeqModel.build_model(config, task)
    with pytest.raises(UserError, match=r"Checkpoint last\.pt was trained with another dictionary"):
        compare("last.pt", {"cfg": {"model": vars(config)}, "model": {}}, config, task)


def test_arch_name_and_dropout_may_differ(train, trained, tmp_path):
    last = trained / "checkpoint_last.pt"
    train(tmp_path, "--finetune-from-model", last, "--dropout", 0.2, "--encoder-ffn-embed-dim", 16, arch="tupe_r_base")


def test_checkpoint_without_checksum(corpus, train, trained, tmp_path):
    """As `tupe convert-release` writes it: the size is compared."""
    state = torch.load(trained / "checkpoint_last.pt", weights_only=True)
    state["cfg"]["model"]["dictionary_sha256"] = None
    last = tmp_path / "converted.pt"
    torch.save(state, last)
    train(tmp_path / "same", "--finetune-from-model", last)
    data = shutil.copytree(corpus, tmp_path / "data", ignore=shutil.ignore_patterns("manifest.json"))
    (data / "dict.txt").write_text((corpus / "dict.txt").read_text() + "more 1\n")
    with pytest.raises(UserError, match="another dictionary"):
        train(tmp_path / "run", "--finetune-from-model", last, data=data)
