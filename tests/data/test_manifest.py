import shutil

import pytest

from tupe.data.manifest import DICTIONARY, MODEL, Manifest
from tupe.util import UserError


@pytest.fixture
def copy(prepared, tmp_path):
    return shutil.copytree(prepared, tmp_path / "corpus")


def test_the_file_or_its_folder(prepared):
    manifest = Manifest.load(prepared)
    assert manifest == Manifest.load(prepared / "manifest.json")
    assert manifest.content.data == (".", "shard1")
    assert manifest.text_processing().line("“Hello”, Anna!") == '" hello , " anna !'


@pytest.mark.parametrize("name", [MODEL, DICTIONARY])
def test_another_vocabulary_is_refused(name, copy):
    with (copy / name).open("ab") as file:
        file.write(b"x")
    with pytest.raises(UserError, match=f"{name} is not the file that"):
        Manifest.load(copy)


def test_nothing_of_this_machine_is_in_it(prepared):
    assert str(prepared.parent) not in (prepared / "manifest.json").read_text()
