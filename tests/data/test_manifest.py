import shutil

import pytest
from fairseq.data.indexed_dataset import MMapIndexedDataset

from tupe.data.binary import writer
from tupe.data.manifest import DICTIONARY, MODEL, Manifest, check_files, with_shards
from tupe.util import UserError


@pytest.fixture
def copy(prepared, tmp_path):
    return shutil.copytree(prepared, tmp_path / "corpus")


def test_the_corpus(prepared, copy):
    manifest = Manifest.load(prepared)
    assert manifest.data == [".", "shard1"]
    path = copy / "manifest.json"
    elsewhere = path.read_text().replace('"shard1"', '"../../shard1"')
    path.write_text(elsewhere.replace("{", '{"version": 2, "sizes": {},', 1))  # fields of an earlier version
    assert (Manifest.load(copy).settings, with_shards(str(copy))) == (manifest.settings, f"{copy}:{copy / 'shard1'}")


@pytest.mark.parametrize("name", [MODEL, DICTIONARY])
def test_another_vocabulary_is_refused(name, copy):
    with (copy / name).open("ab") as file:
        file.write(b"x")
    with pytest.raises(UserError, match=f"{name} is not the file that was prepared"):
        Manifest.load(copy)


def other_validation(copy):
    for end in ("bin", "idx"):
        shutil.copyfile(copy / f"train.{end}", copy / f"valid.{end}")


def half_the_training(copy):
    sequences = MMapIndexedDataset(str(copy / "train"))
    with writer(copy / "train", 150) as add:
        for number in range(len(sequences) // 2):
            add(sequences[number])


def no_second_shard(copy):
    shutil.rmtree(copy / "shard1")


@pytest.mark.parametrize("change", [other_validation, half_the_training, no_second_shard])
def test_data_that_changed_since_they_were_prepared(change, copy):
    check_files(copy)
    change(copy)
    with pytest.raises(UserError, match=r"not the file that was prepared"):
        check_files(copy)
