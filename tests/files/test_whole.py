import hashlib

import pytest

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
    for left in (".a.part/four", ".a.before/one"):  # by a process that was killed
        (tmp_path / left).mkdir(parents=True)
    with whole_folder(path) as folder:
        (folder / "five").touch()
    assert [file.name for file in tmp_path.rglob("*")] == ["a", "five"]


def test_what_a_killed_process_left(tmp_path):
    for name in ("a", ".a.17.part"):
        (tmp_path / name).touch()
    remove_unfinished(tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["a"]
