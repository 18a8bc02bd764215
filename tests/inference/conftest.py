"""A small translation model, trained as users train it."""

import random

import pytest

from tests.commands import run
from tests.data.translation.conftest import WORDS
from tupe.cli.main import main

SIZE = ("--encoder-layers", 1, "--encoder-embed-dim", 16, "--encoder-ffn-embed-dim", 16, "--encoder-attention-heads", 2)


@pytest.fixture(scope="session")
def parallel(tmp_path_factory):
    """Folder of prepared data."""
    folder, draw = tmp_path_factory.mktemp("parallel"), random.Random(0)
    for split, number in (("train", 300), ("valid", 20), ("test", 20)):
        source = [draw.choices(list(WORDS), k=draw.randrange(2, 7)) for _ in range(number)]
        for language, words in (("en", {word: word for word in WORDS}), ("de", WORDS)):
            text = "".join(" ".join(words[word] for word in line) + "\n" for line in source)
            (folder / f"{split}.{language}").write_text(text)
    files = [f"--{split}={folder / split}" for split in ("train", "valid", "test")]
    options = [*files, "--vocab-size=60", "--workers=1"]
    assert main(["prepare-translation", str(folder / "data"), "en", "de", *options]) == 0
    return folder / "data"


def train(parallel, save_dir, *options, check=True):
    """`fairseq-train` of a model of one layer, one record an update."""
    return run(
        "fairseq-train", parallel, "--user-dir", "tupe", "--task", "translation", "-s", "en", "-t", "de",
        "--left-pad-source", "--arch", "seq2seq_tupe_r_tiny", *SIZE, "--share-all-embeddings",
        "--max-source-positions", 32, "--max-target-positions", 32, "--criterion", "label_smoothed_cross_entropy",
        "--optimizer", "adam", "--lr", 0.01, "--max-tokens", 400, "--save-dir", save_dir, "--cpu", "--num-workers", 0,
        "--log-format", "json", "--log-interval", 1, "--no-epoch-checkpoints", *options, check=check,
    )  # fmt: skip


@pytest.fixture(scope="session")
def trained(parallel, tmp_path_factory):
    """Its folder, with the checkpoints of 4 and 6 updates, and its log."""
    folder = tmp_path_factory.mktemp("trained")
    return folder, train(parallel, folder, "--max-update", 6, "--save-interval-updates", 2)
