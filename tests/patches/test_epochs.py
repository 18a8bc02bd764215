"""A run resumed in its second or third epoch ends with the weights of the uninterrupted run."""

import shutil

import pytest
import torch

from tests.commands import run
from tests.data.conftest import squad, write_corpus, write_json
from tests.tasks.test_multilingual_masked_lm import write_languages
from tests.tasks.test_question_answering import made_questions
from tupe.cli.main import main

SIZE = ("--encoder-layers", 1, "--encoder-embed-dim", 16, "--encoder-ffn-embed-dim", 16, "--encoder-attention-heads", 2)
MASKED = ("--arch", "tupe_tiny", "--criterion", "masked_lm", "--tokens-per-sample", 32, "--batch-size", 60)
CLASSES = ("--arch", "tupe_tiny", "--max-positions", 48, "--num-classes", 2, "--batch-size", 32)

#: The fixture of its data and the flags of a run with at least two updates an epoch.
RUNS = {
    "masked_lm": ("shards", *MASKED, "--batch-size", 20),
    "workers": ("corpus", *MASKED, "--num-workers", 1, "--data-buffer-size", 0, "--curriculum", 1),
    "tupe_multilingual_masked_lm": ("many_languages", *MASKED, "--task", "tupe_multilingual_masked_lm",
                                    "--tokens-per-sample", 9),
    "sentence_prediction": ("glue", *CLASSES, "--task", "sentence_prediction", "--criterion", "sentence_prediction"),
    "tupe_sentence_prediction": ("glue", *CLASSES, "--task", "tupe_sentence_prediction", "--criterion",
                                 "tupe_sentence_prediction"),
    "tupe_question_answering": ("questions", "--task", "tupe_question_answering", "--arch", "tupe_tiny", "--criterion",
                                "tupe_question_answering", "--max-positions", 48, "--max-query", 8, "--doc-stride", 16,
                                "--batch-size", 40),
}  # fmt: skip


@pytest.fixture
def shards(corpus, tmp_path):
    (tmp_path / "second").mkdir()
    for end in ("bin", "idx"):
        (tmp_path / f"second/train.{end}").symlink_to(corpus / f"valid.{end}")
    return f"{corpus}:{tmp_path / 'second'}"


@pytest.fixture(scope="module")
def many_languages(tmp_path_factory):
    return write_languages(tmp_path_factory.mktemp("languages"))


@pytest.fixture(scope="module")
def questions(tmp_path_factory):
    folder, made = tmp_path_factory.mktemp("questions"), made_questions(100)
    corpus = write_corpus(folder / "corpus", [paragraph["context"] for paragraph in made["data"][0]["paragraphs"]], 60)
    splits = {"train": made, "valid": squad(("Bob sleeps.", [("a", "Who?", "Bob")]))}
    files = [f"{split}={write_json(folder / f'{split}.json', what)}" for split, what in splits.items()]
    assert main(["prepare-qa", *files, str(corpus), str(folder / "data"), "--workers", "1"]) == 0
    return folder / "data"


@pytest.mark.parametrize("name", RUNS)
def test_resumed_in_any_epoch(name, request, tmp_path):
    fixture, *flags = RUNS[name]
    data = request.getfixturevalue(fixture)
    command = (
        "fairseq-train", data / "CoLA" if fixture == "glue" else data, "--user-dir", "tupe", "--task", "masked_lm",
        *SIZE, "--optimizer", "adam", "--lr", 0.01, "--cpu", "--num-workers", 0, "--max-epoch", 3,
        "--disable-validation", *flags,
    )  # fmt: skip
    whole = tmp_path / "whole"
    run(*command, "--save-dir", whole, "--save-interval-updates", 1)
    expected = torch.load(whole / "checkpoint_last.pt", weights_only=True)["model"]
    for checkpoint in (min(whole.glob("checkpoint_2_*.pt")), whole / "checkpoint2.pt"):  # goes on in the third epoch
        again = tmp_path / checkpoint.stem
        again.mkdir()
        shutil.copy(checkpoint, again / "checkpoint_last.pt")
        run(*command, "--save-dir", again, "--no-epoch-checkpoints")
        found = torch.load(again / "checkpoint_last.pt", weights_only=True)["model"]
        torch.testing.assert_close(found, expected, rtol=0, atol=0)
