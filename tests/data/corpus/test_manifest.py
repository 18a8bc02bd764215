import json
import shutil

import pytest

from tupe.data.corpus.manifest import DICTIONARY, MODEL, Manifest
from tupe.errors import UserError


@pytest.fixture
def copy(prepared, tmp_path):
    return shutil.copytree(prepared, tmp_path / "corpus")


def test_the_file_or_its_folder(prepared):
    manifest = Manifest.load(prepared)
    assert manifest == Manifest.load(prepared / "manifest.json")
    assert manifest.content["data"] == [".", "shard1"]
    assert manifest.text_processing().line("“Hello”, Anna!") == '" hello , " anna !'


@pytest.mark.parametrize("name", [MODEL, DICTIONARY])
def test_another_vocabulary_is_refused(name, copy):
    with (copy / name).open("ab") as file:
        file.write(b"x")
    with pytest.raises(UserError, match=f"{name} is not the one that .*json was written for"):
        Manifest.load(copy)
    (copy / name).unlink()
    with pytest.raises(UserError, match=f"{name} is missing"):
        Manifest.load(copy)


def test_what_is_no_manifest(copy):
    with pytest.raises(UserError, match=r"there is no .*manifest\.json: give the folder"):
        Manifest.load(copy / "shard1")
    for content in ("{", "[]", json.dumps({"checksums": {}})):
        (copy / "manifest.json").write_text(content)
        with pytest.raises(UserError, match="is no manifest of `tupe prepare-corpus`"):
            Manifest.load(copy)
