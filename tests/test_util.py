import multiprocessing

import pytest

from tupe.util import UserError, atomic, lock, read_json, remove_parts, run_folder, write_json


def test_a_file_is_whole_or_absent(tmp_path):
    path = tmp_path / "new/file"
    with pytest.raises(RuntimeError), atomic(path) as part:
        part.write_text("half")
        raise RuntimeError
    assert [*path.parent.iterdir()] == []
    with atomic(path) as part:
        part.write_text("whole")
        assert not path.exists()
    assert path.read_text() == "whole"


def test_what_exists_is_kept_unless_it_may_be_replaced(tmp_path):
    path = tmp_path / "file"
    path.write_text("mine")
    with pytest.raises(UserError, match="file exists"), atomic(path):
        pass
    assert path.read_text() == "mine"
    write_json(path, {"a": "é"})
    assert read_json(path) == {"a": "é"}


def test_a_folder_is_replaced_whole(tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out/old").touch()
    with atomic(tmp_path / "out", overwrite=True) as part:
        part.mkdir()
        (part / "new").touch()
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["new"]


def test_parts_of_killed_processes_are_removed(tmp_path):
    (tmp_path / ".file.123.part").touch()
    (tmp_path / ".folder.123.part").mkdir()
    (tmp_path / "file").touch()
    remove_parts(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def hold(path, held, end):
    with lock(path):
        held.set()
        end.wait()


def test_one_process_at_a_time(tmp_path):
    context = multiprocessing.get_context("fork")
    held, end = context.Event(), context.Event()
    process = context.Process(target=hold, args=(tmp_path / ".lock", held, end))
    process.start()
    held.wait()
    with pytest.raises(UserError, match="Another process is working in"), run_folder(tmp_path, {}):
        pass
    process.kill()  # the lock ends with its process, however that ends
    with lock(tmp_path / ".lock", wait=True):
        process.join()
