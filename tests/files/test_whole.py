import hashlib
import os

import pytest

from tupe.errors import UserError
from tupe.files import atomic, remove_unfinished, sha256, whole_folder


def test_a_file_is_whole_or_not_there(tmp_path):
    path = tmp_path / "new" / "a"
    with pytest.raises(ZeroDivisionError), atomic(path) as unfinished:
        unfinished.write_text("half")
        raise ZeroDivisionError
    assert list(path.parent.iterdir()) == []
    with atomic(path) as unfinished:
        unfinished.write_text("whole")
        assert not path.exists()
    assert [file.name for file in path.parent.iterdir()] == ["a"]
    assert sha256(path) == hashlib.sha256(b"whole").hexdigest()


def test_what_is_in_the_place_of_a_file(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    os.mkfifo(tmp_path / "pipe")
    for name, said in (
        ("folder", "is a folder: give the name of a file"),
        ("pipe", "is a pipe or device"),
        ("file/a", "file cannot be a folder"),
    ):
        with pytest.raises(UserError, match=said), atomic(tmp_path / name):
            pytest.fail("the work begins")
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["file", "folder", "pipe"]


def test_a_folder_is_whole_or_as_before(tmp_path):
    path = tmp_path / "a"
    for content in ("one", "two"):
        with whole_folder(path) as folder:
            (folder / content).touch()
        assert [file.name for file in path.iterdir()] == [content]
    with pytest.raises(ZeroDivisionError), whole_folder(path) as folder:
        (folder / "three").touch()
        raise ZeroDivisionError
    assert [file.name for file in tmp_path.rglob("*")] == ["a", "two"]
    for left in (".a.tupe-new/four", ".a.tupe-before/one"):  # by a process that was killed
        (tmp_path / left).mkdir(parents=True)
    with whole_folder(path) as folder:
        (folder / "five").touch()
    assert [file.name for file in tmp_path.rglob("*")] == ["a", "five"]


def test_a_folder_that_was_being_replaced_comes_back(tmp_path):
    (tmp_path / ".a.tupe-before").mkdir()
    (tmp_path / ".a.tupe-before/one").touch()
    with pytest.raises(ZeroDivisionError), whole_folder(tmp_path / "a"):
        raise ZeroDivisionError
    assert [file.name for file in tmp_path.rglob("*")] == ["a", "one"]


def test_what_a_killed_process_left(tmp_path):
    kept = {"a", ".notes.part", ".a.17.part"}  # what others call so stays
    for name in (*kept, ".a.17.tupe-part"):
        (tmp_path / name).touch()
    remove_unfinished(tmp_path)
    assert {file.name for file in tmp_path.iterdir()} == kept
