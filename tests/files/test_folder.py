"""A folder is owned by one process, holds one thing, and nothing of others is touched."""

import json
import multiprocessing
import os
import signal
import time
from pathlib import Path

import pytest

from tupe.errors import UserError
from tupe.files import difference, folder, identity, move_into, own

OF = {"checkpoint": "1f", "settings": {"lr": (2e-05,), "seed": 1}}


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_the_same_goes_on_and_another_is_refused(tmp_path):
    out = tmp_path / "new" / "out"
    with own(out, "glue", OF):
        (out / "made").touch()
    assert identity(out).of["settings"] == {"lr": [2e-05], "seed": 1}
    (out / ".made.17.tupe-part").touch()
    with own(out, "glue", OF):
        assert names(out) == [".tupe.json", ".tupe.lock", "made"]
    for made_by, of, said in (
        ("glue", {**OF, "checkpoint": "2e"}, "was begun with checkpoint = 1f, not 2e"),
        ("glue", {**OF, "settings": {"lr": [2e-05]}}, r"with settings\.seed = 1, not unset"),
        ("glue", {**OF, "data": "d"}, "with data = unset, not d"),
        ("corpus", OF, "is of glue, not of corpus"),
    ):
        with pytest.raises(UserError, match=said), own(out, made_by, of):
            pass
    assert names(out) == [".tupe.json", ".tupe.lock", "made"]


def test_what_is_of_others_is_not_touched(tmp_path):
    (tmp_path / ".notes.part").write_text("mine")
    with pytest.raises(UserError, match=r"holds what is not of glue \(\.notes\.part\)"), own(tmp_path, "glue", OF):
        pass
    assert names(tmp_path) == [".notes.part"]
    with own(tmp_path, "glue", OF, besides=[".notes.part"]):
        pass
    for content in ("", "{", "[]", '{"version": 2}', '{"made_by": "glue"}'):
        (tmp_path / ".tupe.json").write_text(content)
        with pytest.raises(UserError, match=r"choose another folder|use the tupe"), own(tmp_path, "glue", OF):
            pass
        assert (tmp_path / ".tupe.json").read_text() == content


def test_until_something_is_begun_it_may_become_another(tmp_path):
    def take(of):
        with own(tmp_path, "train", of, besides=["log", "model"], is_begun=(tmp_path / "model").exists):
            pass
        return identity(tmp_path)

    (tmp_path / "log").touch()
    assert take({"layers": 1}).of == {"layers": 1}
    assert take({"layers": 2}).of == {"layers": 2}
    (tmp_path / "model").touch()
    with pytest.raises(UserError, match="was begun with layers = 2, not 3"):
        take({"layers": 3})
    (tmp_path / ".tupe.json").unlink()
    assert take({"layers": 3}) is None  # what it is of is not known


def test_files_move_into_a_folder_in_as_many_goes_as_it_takes(tmp_path):
    made, wanted = tmp_path / "made", ("a", "b/c", "b/d")
    for name in wanted:
        (made / name).parent.mkdir(parents=True, exist_ok=True)
        (made / name).write_text(name)
    (tmp_path / "b").touch()
    with pytest.raises(UserError, match=r"b is there, but not of glue: move it away"):
        move_into(tmp_path, made, wanted, "glue")
    assert not (tmp_path / "a").exists()
    (tmp_path / "b").unlink()
    move_into(tmp_path, made, wanted[:1], "glue")  # killed
    move_into(tmp_path, made, wanted, "glue")
    assert [(tmp_path / name).read_text() for name in wanted] == list(wanted)


def test_what_is_no_folder(tmp_path):
    (tmp_path / "file").touch()
    (tmp_path / "nothing").symlink_to("nowhere")
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("folder")
    for name in ("file", "nothing"):
        with pytest.raises(UserError, match="give the name of a folder"), own(tmp_path / name, "glue", OF):
            pass
    with pytest.raises(UserError, match="file is not a folder, so that"), own(tmp_path / "file/a/b", "glue", OF):
        pass
    with pytest.raises(UserError, match=r"^/ holds what is not of glue"), own(Path("/"), "glue", OF):
        pass
    with own(tmp_path / "link", "glue", OF):
        assert identity(tmp_path / "folder") is not None
    assert not (tmp_path / "nowhere").exists()


def test_an_error_before_the_first_file_leaves_nothing(tmp_path):
    (tmp_path / "empty").mkdir()
    for out in (tmp_path / "a/b", tmp_path / "empty"):
        with pytest.raises(ZeroDivisionError), own(out, "glue", OF):
            raise ZeroDivisionError
        assert names(tmp_path) == ["empty"]
        assert names(tmp_path / "empty") == []
    with pytest.raises(ZeroDivisionError), own(tmp_path / "a", "glue", OF):
        (tmp_path / "a/made").touch()
        raise ZeroDivisionError
    assert names(tmp_path / "a") == [".tupe.json", ".tupe.lock", "made"]


def hold(folder, ready):
    with own(folder, "glue", OF):
        ready.set()
        signal.pause()


def test_one_process_at_a_time_until_it_ends(tmp_path):
    fork = multiprocessing.get_context("fork")
    ready = fork.Event()
    other = fork.Process(target=hold, args=(tmp_path / "out", ready))
    other.start()
    assert ready.wait(60)
    with pytest.raises(UserError, match=r"another process is working in .*out"), own(tmp_path / "out", "glue", OF):
        pass
    os.kill(other.pid, signal.SIGKILL)
    with own(tmp_path / "out", "glue", OF, wait=True):
        pass
    other.join()


def begin(folder, number, results):
    try:
        with own(folder, f"command {number}", {}, wait=True):
            results.put(number)
            time.sleep(0.1)  # until the others have seen whose it is
            raise ZeroDivisionError  # leaves the folder as it was, for the next
    except ZeroDivisionError:
        pass


def test_those_who_wait_for_one_that_gives_up_get_the_folder(tmp_path):
    fork = multiprocessing.get_context("fork")
    results = fork.SimpleQueue()
    processes = [fork.Process(target=begin, args=(tmp_path / "out", number, results)) for number in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
        assert process.exitcode == 0
    assert sorted(results.get() for _ in processes) == [0, 1, 2, 3]
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_one_gives_up_while_another_looks_whose_it_is(tmp_path, monkeypatch):
    read = folder.identity

    def read_too_late(out, *args):
        found = read(out, *args)
        for name in names(out) if found else []:
            (out / name).unlink()
        return found

    with own(tmp_path / "out", "glue", OF):
        pass
    monkeypatch.setattr(folder, "identity", read_too_late)
    with own(tmp_path / "out", "a sweep", {}, wait=True):
        assert names(tmp_path / "out") == [".tupe.json", ".tupe.lock"]


@pytest.mark.parametrize(
    ("found", "asked", "said"),
    [
        ({"a": 1}, {"a": 1}, None),
        ({"a": {"b": [1, 2]}}, {"a": {"b": [1, 3]}}, "a.b = [1, 2], not [1, 3]"),
        ({"a": "x\n\x1b"}, {"a": "y"}, r"a = 'x\n\x1b', not y"),
        ({}, {"a": False}, "a = unset, not False"),
        ({"a": "x" * 500}, {"a": ""}, f"a = {'x' * 97}..., not "),
        (
            {"a": ["x" * 200, "b", "y" * 200]},
            {"a": ["x" * 200, "c"]},
            f"a = ...{'x' * 36}', 'b', '{'y' * 49}..., not ...{'x' * 36}', 'c']",
        ),
    ],
)
def test_the_first_difference(found, asked, said):
    assert difference(json.loads(json.dumps(found)), asked) == said
