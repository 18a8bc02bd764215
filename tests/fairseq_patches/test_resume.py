"""Checkpoints that a run cannot go on from, and runs that are already done."""

import hashlib
import sys

import pytest
import torch
from fairseq import checkpoint_utils
from fairseq.data import Dictionary
from fairseq.tasks.sentence_prediction import SentencePredictionTask
from fairseq_cli.train import cli_main

from tests.samples import write_task
from tupe.checkpoints.load import open_checkpoint
from tupe.fairseq_patches import dictionary_sha256
from tupe.fairseq_patches.checkpoints import refuse_other_dictionary
from tupe.util import UserError


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_finished_run_stays_finished(train, tmp_path):
    train(tmp_path)
    before = digest(tmp_path / "checkpoint_last.pt")
    train(tmp_path)
    assert digest(tmp_path / "checkpoint_last.pt") == before
    train(tmp_path, "--max-update", 4)
    last = torch.load(tmp_path / "checkpoint_last.pt", weights_only=True)
    assert last["optimizer_history"][-1]["num_updates"] == 4


def test_a_run_without_its_optimizer_does_not_go_on_in_silence(train, tmp_path):
    train(tmp_path / "run", "--no-save-optimizer-state")
    last = tmp_path / "run/checkpoint_last.pt"
    with pytest.raises(UserError, match=rf"{last} has no state of the optimizer.*--finetune-from-model"):
        train(tmp_path / "run", "--max-update", 4)
    train(tmp_path / "new", "--restore-file", last)


@pytest.mark.parametrize("flag", ["--restore-file", "--continue-once"])
def test_checkpoint_that_does_not_exist(flag, train, tmp_path):
    """fairseq alone trains from nothing."""
    with pytest.raises(UserError, match=r"There is no checkpoint /.*none\.pt"):
        train(tmp_path, flag, tmp_path / "none.pt")


def test_interrupted_finetuning_goes_on_without_the_pretrained_checkpoint(train, trained, tmp_path):
    pretrained = tmp_path / "pretrained.pt"
    pretrained.write_bytes((trained / "checkpoint_last.pt").read_bytes())
    train(tmp_path / "run", "--finetune-from-model", pretrained)
    pretrained.unlink()
    train(tmp_path / "run", "--finetune-from-model", pretrained, "--max-update", 4)


def test_labels_that_were_prepared_anew(tmp_path, monkeypatch):
    """No run goes on with other labels, and its checkpoint is not used with them; a new run may begin from it."""
    task, out = write_task(tmp_path / "mood", ("bad", "good")), tmp_path / "out"
    command = [
        "fairseq-train", task, "--user-dir", "tupe", "--task", "tupe_sentence_prediction", "--arch", "tupe_tiny",
        "--encoder-layers", 1, "--encoder-embed-dim", 16, "--encoder-ffn-embed-dim", 16, "--encoder-attention-heads", 2,
        "--criterion", "tupe_sentence_prediction", "--num-classes", 2, "--classification-head-name", "mood",
        "--max-positions", 32, "--batch-size", 4, "--optimizer", "adam", "--lr", 0.001, "--num-workers", 0, "--cpu",
        "--no-epoch-checkpoints", "--max-update", 1,
    ]  # fmt: skip

    def train(*flags):
        monkeypatch.setattr(sys, "argv", [str(part) for part in (*command, *flags)])
        vars(checkpoint_utils.save_checkpoint).pop("best", None)  # of an earlier run in this process
        cli_main()

    train("--save-dir", out)
    opened = open_checkpoint(out / "checkpoint_last.pt")
    opened.check_classes(task)
    (task / "label/dict.txt").write_text("bad 7\ngood 1\n")  # counts are no labels
    opened.check_classes(task)
    train("--save-dir", out, "--max-update", 2)
    for names in ("good 1\nbad 1\n", "bad 1\nbest 1\n"):
        (task / "label/dict.txt").write_text(names)
        with pytest.raises(UserError, match=r"checkpoint_last\.pt was fine-tuned with other labels than those of"):
            opened.check_classes(task)
        with pytest.raises(UserError, match=r"checkpoint_last\.pt was fine-tuned with other labels than those of"):
            train("--save-dir", out, "--max-update", 3)
    train("--save-dir", tmp_path / "new", "--finetune-from-model", out / "checkpoint_last.pt")


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--relative", "none", "--reset", "release"),
         r"another system \(relative: checkpoint bucketed, here none; reset: checkpoint paper, here release\)"),
        (("--encoder-layers", 2), r"\(encoder_layers: checkpoint 1, here 2\)"),
    ],
)  # fmt: skip
def test_other_settings_than_the_checkpoints(flags, said, train, trained, tmp_path):
    with pytest.raises(UserError, match=rf"checkpoint_last\.pt is of .*{said}"):
        train(tmp_path, "--restore-file", trained / "checkpoint_last.pt", *flags)


def test_arch_name_and_dropout_may_differ(train, trained, tmp_path):
    last = trained / "checkpoint_last.pt"
    train(tmp_path, "--finetune-from-model", last, "--dropout", 0.2, "--encoder-ffn-embed-dim", 16, arch="tupe_r_base")


def with_dictionary(corpus, folder, change):
    """The data of `corpus` with the lines of its dictionary changed."""
    folder.mkdir()
    for file in corpus.glob("*.[bi]*"):
        (folder / file.name).symlink_to(file)
    lines = (corpus / "dict.txt").read_text().splitlines()
    (folder / "dict.txt").write_text("".join(f"{line}\n" for line in change(lines)))
    return folder


@pytest.mark.parametrize("change", [lambda lines: lines[::-1], lambda lines: [*lines, "new 1"]])
def test_other_dictionary(change, corpus, train, trained, tmp_path):
    data, last = with_dictionary(corpus, tmp_path / "data", change), trained / "checkpoint_last.pt"
    with pytest.raises(UserError, match=rf"{last} was trained with another dictionary"):
        train(tmp_path / "run", "--finetune-from-model", last, data=data)


def test_checkpoint_without_checksum(corpus, train, trained, tmp_path):
    """As `tupe convert-release` writes it: the size is compared."""
    state = torch.load(trained / "checkpoint_last.pt", weights_only=True)
    state["cfg"]["model"]["dictionary_sha256"] = None
    last = tmp_path / "converted.pt"
    torch.save(state, last)
    train(tmp_path / "same", "--finetune-from-model", last)
    data = with_dictionary(corpus, tmp_path / "data", lambda lines: [*lines, "more 1"])
    with pytest.raises(UserError, match="another dictionary"):
        train(tmp_path / "run", "--finetune-from-model", last, data=data)


def test_other_dictionary_outside_training(corpus, trained, tmp_path):
    """As the hub interface and `fairseq-validate` load a model."""
    last, other = (
        str(trained / "checkpoint_last.pt"),
        with_dictionary(corpus, tmp_path / "data", lambda lines: lines[::-1]),
    )
    checkpoint_utils.load_model_ensemble_and_task([last], {"data": str(corpus)})
    with pytest.raises(UserError, match="another dictionary"):
        checkpoint_utils.load_model_ensemble_and_task([last], {"data": str(other)})


def test_checksum_is_of_the_symbols_in_order_the_same_for_both_tasks(corpus, trained):
    dictionary = SentencePredictionTask.load_dictionary(str(corpus / "dict.txt"))
    saved = torch.load(trained / "checkpoint_last.pt", weights_only=True)["cfg"]["model"]["dictionary_sha256"]
    assert dictionary_sha256(dictionary) == saved
    swapped = Dictionary.load(str(corpus / "dict.txt"))
    assert dictionary_sha256(swapped) != saved  # no <mask>
    with pytest.raises(UserError, match="another dictionary"):
        refuse_other_dictionary(saved, swapped)  # as fairseq-eval-lm has it
