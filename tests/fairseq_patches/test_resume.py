"""Checkpoints that a run cannot go on from, and runs that are already done."""

import hashlib
import math
import os
import shutil
import sys

import pytest
import torch
from fairseq import checkpoint_utils
from fairseq.data import Dictionary
from fairseq.logging import metrics
from fairseq.tasks.masked_lm import MaskedLMTask
from fairseq.tasks.sentence_prediction import SentencePredictionTask
from fairseq.tasks.translation import TranslationTask
from fairseq_cli.train import cli_main

from tests.samples import write_manifest, write_task
from tupe.checkpoints.load import open_checkpoint
from tupe.errors import UserError
from tupe.fairseq_patches import dictionary_sha256
from tupe.fairseq_patches.checkpoints import prepared_by, refuse_other_dictionary
from tupe.tasks.question_answering import TupeQuestionAnsweringTask
from tupe.tasks.sentence_prediction import TupeSentencePredictionTask


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_finished_run_stays_finished(train, tmp_path):
    train(tmp_path)
    before = digest(tmp_path / "checkpoint_last.pt")
    train(tmp_path)
    assert digest(tmp_path / "checkpoint_last.pt") == before
    train(tmp_path, "--max-update", 4)
    assert metrics.get_meter("default", "wall").elapsed_time > 0  # of this start
    last = torch.load(tmp_path / "checkpoint_last.pt", weights_only=True)
    assert last["optimizer_history"][-1]["num_updates"] == 4


def test_a_dictionary_that_is_not_the_one_of_the_manifest(train, corpus, tmp_path):
    data = shutil.copytree(corpus, tmp_path / "data")
    write_manifest(data)
    with (data / "dict.txt").open("a") as dictionary:
        dictionary.write("more 1\n")
    with pytest.raises(UserError, match=rf"^{data}/dict\.txt is not the one that the command that prepared it wrote"):
        train(tmp_path / "run", data=data)


@pytest.mark.parametrize(
    ("part", "value", "said"),
    [
        ("last_optimizer_state", True, r"other\.pt cannot be continued, because what it says of its training is"),
        ("extra_state", {"best": "x"}, r"other\.pt says that best is 'x', which is no number"),
        ("optimizer_history", [], r"other\.pt is not a checkpoint of fairseq, which has optimizer_history: give"),
    ],
)
def test_a_state_of_the_training_that_is_none(part, value, said, train, trained, tmp_path):
    state = torch.load(trained / "checkpoint_last.pt", weights_only=False)
    torch.save({**state, part: value}, tmp_path / "other.pt")
    with pytest.raises(UserError, match=said):
        train(tmp_path / "run", "--restore-file", tmp_path / "other.pt")


def test_an_optimizer_that_had_diverged(train, trained, tmp_path):
    state = torch.load(trained / "checkpoint_last.pt", weights_only=False)
    state["last_optimizer_state"]["state"][0]["exp_avg"][0] = math.nan
    torch.save(state, tmp_path / "other.pt")
    with pytest.raises(
        UserError, match=r"the optimizer in \S+other\.pt holds NaN or infinite numbers: give an earlier"
    ):
        train(tmp_path / "run", "--restore-file", tmp_path / "other.pt")


def test_a_dictionary_that_is_a_pipe(train, corpus, tmp_path):
    data = shutil.copytree(corpus, tmp_path / "data")
    (data / "dict.txt").unlink()
    os.mkfifo(data / "dict.txt")
    with pytest.raises(UserError, match=rf"^{data}/dict\.txt is a pipe or device, not a file"):
        train(tmp_path / "run", data=data)


def test_a_checkpoint_without_the_meter_of_time(train, trained, tmp_path):
    state = torch.load(trained / "checkpoint_last.pt", weights_only=False)
    state["extra_state"]["metrics"]["default"] = [
        meter for meter in state["extra_state"]["metrics"]["default"] if meter[1] != "wall"
    ]
    torch.save(state, tmp_path / "without.pt")
    train(tmp_path / "run", "--restore-file", tmp_path / "without.pt", "--max-update", 4)
    assert torch.load(tmp_path / "run/checkpoint_last.pt", weights_only=True)["optimizer_history"]


def test_a_run_without_its_optimizer_does_not_go_on_in_silence(train, tmp_path):
    train(tmp_path / "run", "--no-save-optimizer-state")
    last = tmp_path / "run/checkpoint_last.pt"
    with pytest.raises(UserError, match=rf"{last} has no state of the optimizer.*--finetune-from-model"):
        train(tmp_path / "run", "--max-update", 4)
    train(tmp_path / "new", "--restore-file", last)


def test_a_run_does_not_go_on_beyond_its_epoch(train, tmp_path):
    train(tmp_path / "run")
    larger = ("--batch-size", 10_000, "--max-update", 4)
    with pytest.raises(
        UserError, match=r"^the checkpoint is of 3 batches into its epoch, which is shorter here: resume"
    ):
        train(tmp_path / "run", *larger)
    train(tmp_path / "run", *larger, "--reset-dataloader")


def test_a_run_whose_last_checkpoint_is_gone_says_that_it_begins_anew(train, tmp_path, caplog):
    train(tmp_path / "run")
    assert "begins anew" not in caplog.text
    (tmp_path / "run/checkpoint_last.pt").unlink()
    train(tmp_path / "run")
    assert "has checkpoint_best.pt, " in caplog.text
    assert "but no checkpoint_last.pt: the run begins anew" in caplog.text


@pytest.mark.parametrize("flag", ["--restore-file", "--finetune-from-model", "--continue-once"])
def test_checkpoint_that_does_not_exist(flag, train, tmp_path):
    with pytest.raises(UserError, match=r"there is no checkpoint /.*none\.pt"):
        train(tmp_path, flag, tmp_path / "none.pt")


@pytest.mark.parametrize("other", [["--restore-file", "other.pt"], ["--reset-optimizer"]])
def test_two_ways_to_begin(other, train, trained, tmp_path):
    with pytest.raises(UserError, match=r"which takes the parameters alone: leave out checkpoint\.restore_file"):
        train(tmp_path, "--finetune-from-model", trained / "checkpoint_last.pt", *other)


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
    with pytest.raises(UserError, match=r"has classification_heads\.mood\.\S+, which would be lost: give"):
        train("--save-dir", out, "--max-update", 3, "--classification-head-name", "other")
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
        (("--criterion", "tupe_masked_lm"), r"cannot be continued: Criterion does not match.*--finetune-from-model"),
        (("--optimizer", "sgd"), r"cannot be continued: Optimizer does not match"),
        (("--store-ema",), r"has no averaged weights to go on from: leave out --store-ema"),
        (("--tokens-per-sample", 16), r"is of parameters \(32, 16\), which are \(16, 16\) here: resume with"),
    ],
)  # fmt: skip
def test_other_settings_than_the_checkpoints(flags, said, train, trained, tmp_path):
    with pytest.raises(UserError, match=rf"checkpoint_last\.pt .*{said}"):
        train(tmp_path, "--restore-file", trained / "checkpoint_last.pt", *flags)


def test_arch_name_and_dropout_may_differ(train, trained, tmp_path):
    last = trained / "checkpoint_last.pt"
    train(tmp_path, "--finetune-from-model", last, "--dropout", 0.2, "--encoder-ffn-embed-dim", 16, arch="tupe_r_base")


def test_checkpoint_of_fairseqs_model(train, trained, tmp_path):
    train(tmp_path / "roberta", arch="roberta")
    with pytest.raises(UserError, match=r"checkpoint_last\.pt is of fairseq's model roberta"):
        train(tmp_path, "--finetune-from-model", tmp_path / "roberta/checkpoint_last.pt")
    with pytest.raises(Exception, match="ensure that the architectures match"):  # fairseq's own sentence
        train(tmp_path, "--finetune-from-model", trained / "checkpoint_last.pt", arch="roberta")


def test_unreadable_checkpoint_keeps_its_sentence(train, tmp_path):
    (tmp_path / "text.pt").write_text("no checkpoint")
    with pytest.raises(UserError, match=r"text\.pt cannot be read as a checkpoint"):
        train(tmp_path, "--restore-file", tmp_path / "text.pt")


def with_dictionary(corpus, folder, change):
    """The data of `corpus` with the lines of its dictionary changed."""
    folder.mkdir()
    for file in corpus.glob("*.[bi]*"):
        (folder / file.name).symlink_to(file)
    lines = (corpus / "dict.txt").read_text().splitlines()
    (folder / "dict.txt").write_text("".join(f"{line}\n" for line in change(lines)))
    return folder


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda lines: lines[::-1], "other symbols or order"),
        (lambda lines: [*lines, "new 1"], r"(\d+) symbols, the data's has \d+"),
    ],
)
def test_other_dictionary(change, said, corpus, train, trained, tmp_path):
    data, last = with_dictionary(corpus, tmp_path / "data", change), trained / "checkpoint_last.pt"
    with pytest.raises(UserError, match=rf"{last} was trained with another dictionary \({said}\)"):
        train(tmp_path / "run", "--finetune-from-model", last, data=data)


def test_checkpoint_without_checksum(corpus, train, trained, tmp_path):
    """As `tupe convert-release` writes it: the size is compared."""
    state = torch.load(trained / "checkpoint_last.pt", weights_only=True)
    state["cfg"]["model"]["dictionary_sha256"] = None
    last = tmp_path / "converted.pt"
    torch.save(state, last)
    train(tmp_path / "same", "--finetune-from-model", last)
    data = with_dictionary(corpus, tmp_path / "data", lambda lines: [*lines, "more 1"])
    with pytest.raises(UserError, match=r"another dictionary \((\d+) symbols, the data's has \d+\)"):
        train(tmp_path / "run", "--finetune-from-model", last, data=data)


def test_other_dictionary_outside_training(corpus, trained, tmp_path):
    """As the hub interface and `fairseq-validate` load a model."""
    last, other = (
        str(trained / "checkpoint_last.pt"),
        with_dictionary(corpus, tmp_path / "data", lambda lines: lines[::-1]),
    )
    checkpoint_utils.load_model_ensemble_and_task([last], {"data": str(corpus)})
    with pytest.raises(UserError, match=r"another dictionary \(other symbols"):
        checkpoint_utils.load_model_ensemble_and_task([last], {"data": str(other)})


@pytest.mark.parametrize(
    ("task", "command"),
    [
        (TupeQuestionAnsweringTask, "tupe prepare-qa;"),
        (TupeSentencePredictionTask, r"tupe prepare-glue or prepare-task;"),
        (TranslationTask, "tupe prepare-translation;"),
        (MaskedLMTask, r"tupe prepare-corpus --vocabulary;"),
    ],
)
def test_other_dictionary_names_the_command_of_the_task(task, command):
    with pytest.raises(UserError, match=command):
        refuse_other_dictionary("of another", Dictionary(), prepared_by(object.__new__(task)))


def test_checksum_is_of_the_symbols_in_order_the_same_for_both_tasks(corpus, trained):
    dictionary = SentencePredictionTask.load_dictionary(str(corpus / "dict.txt"))
    saved = torch.load(trained / "checkpoint_last.pt", weights_only=True)["cfg"]["model"]["dictionary_sha256"]
    assert dictionary_sha256(dictionary) == saved
    swapped = Dictionary.load(str(corpus / "dict.txt"))
    assert dictionary_sha256(swapped) != saved  # no <mask>
    with pytest.raises(UserError, match=r"predicts masked words, .* `fairseq-validate --task masked_lm`"):
        refuse_other_dictionary(saved, swapped, "")  # as fairseq-eval-lm has it
