import shutil

import pytest

from tupe.data.manifest import DICTIONARY, MODEL, Manifest
from tupe.util import UserError


@pytest.fixture
def copy(prepared, tmp_path):
    return shutil.copytree(prepared, tmp_path / "corpus")


def test_the_corpus(prepared):
    manifest = Manifest.load(prepared)
    assert manifest.data == [".", "shard1"]
    assert manifest.text_processing().line("“Hello”, Anna!") == '" hello , " anna !'


def test_fields_of_an_earlier_version_are_passed_over(copy):
    path = copy / "manifest.json"
    path.write_text(path.read_text().replace("{", '{"version": 2, "sizes": {},', 1))
    assert Manifest.load(copy).settings.vocab_size == 150


@pytest.mark.parametrize("name", [MODEL, DICTIONARY])
def test_another_vocabulary_is_refused(name, copy):
    with (copy / name).open("ab") as file:
        file.write(b"x")
    with pytest.raises(UserError, match=f"{name} is not the file that"):
        Manifest.load(copy)
