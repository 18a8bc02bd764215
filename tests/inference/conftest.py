"""Prepared parallel text."""

import random

import pytest

from tests.data.test_translation import WORDS
from tupe.cli.main import main


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
    assert main(["prepare-translation", "en", "de", str(folder / "data"), *options]) == 0
    return folder / "data"
