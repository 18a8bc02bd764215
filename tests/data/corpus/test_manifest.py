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
    assert manifest.content.data == (".", "shard1")
    assert manifest.text_processing().line("“Hello”, Anna!") == '" hello , " anna !'


@pytest.mark.parametrize("name", [MODEL, DICTIONARY])
def test_another_vocabulary_is_refused(name, copy):
    with (copy / name).open("ab") as file:
        file.write(b"x")
    with pytest.raises(UserError, match=f"{name} is not the one that tupe prepare-corpus wrote"):
        Manifest.load(copy)
    (copy / name).unlink()
    with pytest.raises(UserError, match=f"{name} is missing"):
        Manifest.load(copy)


def test_what_is_no_manifest(copy):
    with pytest.raises(UserError, match=r"there is no .*manifest\.json: give what tupe prepare-corpus wrote"):
        Manifest.load(copy / "shard1")
    good = json.loads((copy / "manifest.json").read_text())
    for content, reason in (
        ("{", "no JSON from line 1"),
        ("[]", "an object"),
        (json.dumps({**good, "checksums": {}}), "does not name sentencepiece"),
        (json.dumps({**good, "sizes": [1]}), "sizes is"),
        (
            '{"version": 2, "task": "CoLA"}',
            r"unknown field 'task'\): give the folder that tupe prepare-corpus wrote, whole",
        ),
        (json.dumps({**good, "version": 1}), "of version 1, but this tupe reads version 2"),
    ):
        (copy / "manifest.json").write_text(content)
        with pytest.raises(UserError, match=reason):
            Manifest.load(copy)


def test_damage_is_found(copy):
    """Sizes always, and of binary data by its index too; the rest when all checksums are asked for."""
    Manifest.load(copy).check(everything=True)
    data = (copy / "shard1/train.bin").read_bytes()
    (copy / "shard1/train.bin").write_bytes(data[:-2])
    with pytest.raises(UserError, match=r"shard1/train\.bin has .* bytes, not the "):
        Manifest.load(copy).check()
    (copy / "shard1/train.bin").write_bytes(bytes(reversed(data)))
    Manifest.load(copy).check()
    with pytest.raises(UserError, match=r"shard1/train\.bin is not the one"):
        Manifest.load(copy).check(everything=True)
    (copy / "shard1/train.bin").unlink()
    with pytest.raises(UserError, match=r"shard1/train\.bin is missing"):
        Manifest.load(copy).check()


def test_nothing_of_this_machine_is_in_it(prepared):
    assert str(prepared.parent) not in (prepared / "manifest.json").read_text()
    assert str(prepared.parent) not in (prepared / ".tupe.json").read_text()
