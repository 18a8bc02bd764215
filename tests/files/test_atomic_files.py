import contextlib
import hashlib
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tupe.errors import UserError
from tupe.files import atomic, check_replaceable, remove_abandoned, remove_unfinished, sha256, whole_folder
from tupe.files.atomic_files import _HERE


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


def test_what_a_killed_process_left_goes_with_the_next_file(tmp_path):
    """Alone what is of processes of this machine that have ended: others may be at work in the folder."""
    ended = subprocess.Popen(["true"])
    ended.wait()
    kept = {f".a.{_HERE}.1.tupe-part", f".a.elsewhere.{ended.pid}.tupe-part", f".a.{ended.pid}.part"}
    for name in (*kept, f".a.{_HERE}.{ended.pid}.tupe-part", f".model.onnx.{_HERE}.{ended.pid}.tupe-part"):
        (tmp_path / name).touch()
    with atomic(tmp_path / "b"):
        assert {file.name for file in tmp_path.iterdir()} == {*kept, f".b.{_HERE}.{os.getpid()}.tupe-part"}


def test_what_was_left_long_ago_on_any_machine_goes(tmp_path):
    """And what a run on another machine writes now stays."""
    for name, age in ((".a.elsewhere.1.tupe-part", 4000), (".b.elsewhere.1.tupe-part", 2000), (".c.part", 4000)):
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (time.time() - age,) * 2)
    remove_abandoned(tmp_path)
    assert {file.name for file in tmp_path.iterdir()} == {".b.elsewhere.1.tupe-part", ".c.part"}
    remove_abandoned(tmp_path / "not there")


def test_after_a_kill_nothing_is_left(tmp_path):
    code = "import os, sys; from pathlib import Path; from tupe.files import atomic\n"
    code += "with atomic(Path(sys.argv[1])): os.kill(os.getpid(), 9)"
    subprocess.run([sys.executable, "-c", code, tmp_path / "a"], check=False)
    assert len(list(tmp_path.iterdir())) == 1
    with atomic(tmp_path / "a") as unfinished:
        unfinished.write_text("whole")
    assert [file.name for file in tmp_path.iterdir()] == ["a"]


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="of Linux")
def test_what_cannot_be_read_is_kept():
    with pytest.raises(UserError, match=r"^/proc/self/mem cannot be read \(.+\), so it is kept: name another file\.$"):
        check_replaceable(Path("/proc/self/mem"))


@pytest.mark.parametrize(
    ("name", "content", "kept"),
    [
        ("a.md", b"| a | b |\n", None),
        ("a.txt", "ein Wörtchen\n".encode() * 10_000, None),
        ("empty", b"", None),
        ("a.json", b'[{"system": "TUPE-R"}]', None),
        ("a.png", b"\x89PNG\r\n\x1a\n\0\0", None),
        ("a.svg", b"<svg></svg>", None),
        ("a.pt", b"PK\x03\x04\0\0", "neither text nor picture"),
        ("a.png", b"\x80\x02}q\0", "neither text nor picture"),
        ("sweep.json", b'{"version": 1}', "JSON that commands read"),
        ("data/dict.txt", b"the 7\n", "a file of prepared data"),
        ("data/text/test.de", b"der Hund\n", "a file of prepared data"),
        ("run/hydra_train.log", b"[INFO]\n", "a file of a folder that the command reads"),
        ("run/table.md", b"| a |\n", None),
        ("run/curves.png", b"\x89PNG", None),
    ],
)
def test_what_a_text_or_picture_replaces(name, content, kept, tmp_path):
    for folder in ("data/text", "run"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "data/dict.de.txt").touch()
    (tmp_path / name).write_bytes(content)
    (tmp_path / "link").symlink_to(tmp_path / name)
    for path in (tmp_path / name, tmp_path / "link"):
        with pytest.raises(UserError, match=f"is {kept}, which is not written") if kept else contextlib.nullcontext():
            check_replaceable(path, [tmp_path / "run"])
