"""Made text that survives the cleaning, and a corpus prepared from it."""

import random

import pytest

from tupe.cli.main import main

NAMES, VERBS = ["Anna", "Bob", "Carl", "Dora", "Emil", "Frida"], ["sees", "likes", "hears", "finds", "calls"]
THINGS = ["the house", "a red car", "the old dog", "a small bird", "the blue sea", "an apple", "his long letter"]


def made_documents(seed, number, lines=6):
    """Documents of lines of one or two sentences; hardly any line comes twice."""
    rng = random.Random(seed)

    def sentence():
        half = [f"{rng.choice(NAMES)} {rng.choice(VERBS)} {rng.choice(THINGS)}" for _ in range(3)]
        return f"{half[0]}, {half[1]} and {half[2]} {rng.randint(1, 9)} times."

    return [[" ".join(sentence() for _ in range(rng.randint(1, 2))) for _ in range(lines)] for _ in range(number)]


def as_text(documents):
    """Documents as a plain text file has them."""
    return "\n\n".join("\n".join(lines) for lines in documents) + "\n"


def prepare_made(folder, documents, options):
    """Prepare so many made documents by the command, with options in one text; return the corpus."""
    (folder / "text.txt").write_text(as_text(made_documents(0, documents)))
    command = ["prepare-corpus", str(folder / "text.txt"), str(folder / "corpus"), *options.split(), "--workers", "1"]
    assert main(command) == 0
    return folder / "corpus"


@pytest.fixture(scope="session")
def prepared(tmp_path_factory):
    """A corpus of two shards, prepared by the command as the paper does."""
    options = "--vocab-size 150 --shards 2 --valid-documents 10 --max-tokens 30"
    return prepare_made(tmp_path_factory.mktemp("prepared"), 120, options)
