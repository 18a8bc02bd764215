"""A full disk: /dev/full takes no byte, so that what writes there raises what it raises on such a disk."""

import errno
import shutil
from types import SimpleNamespace

import pytest
import torch

from tupe.errors import UserError
from tupe.files import atomic, is_full, write_bytes

FULL = "/dev/full"


def by_python(content):
    with open(FULL, "wb") as file:
        file.write(content)


def by_pytorch(content):
    with open(FULL, "wb") as file:
        torch.save({"model": {"weight": torch.zeros(len(content))}}, file)


def by_rust(content):
    pytest.importorskip("tokenizers").Tokenizer(pytest.importorskip("tokenizers.models").BPE()).save(FULL)


@pytest.mark.parametrize("write", [by_python, by_pytorch, by_rust])
@pytest.mark.parametrize(
    ("size", "free", "said"),
    [
        (None, 40, "it needs more than the 40 bytes that are free"),
        (100_000, 40, "of its 100,000 bytes 99,960 do not fit"),
        (100_000, 100_000, "its 100,000 bytes are more than your quota leaves"),
    ],
)
def test_the_sentence_names_the_file_and_the_missing_bytes(write, size, free, said, tmp_path, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: SimpleNamespace(free=free))
    words = rf"{tmp_path}/a\.pt cannot be written, as the disk is full: {said}; make room, or give another place\."
    with pytest.raises(UserError, match=words), atomic(tmp_path / "a.pt", size and (lambda: size)):
        write(b"x" * 100_000)
    assert list(tmp_path.iterdir()) == []


def test_two_files_at_once_are_one_sentence(tmp_path):
    with pytest.raises(UserError, match=r"/b cannot be written"), atomic(tmp_path / "a"), atomic(tmp_path / "b"):
        by_python(b"x")


def test_other_errors_stay_what_they_are(tmp_path):
    assert is_full(OSError(errno.EDQUOT, "quota"))
    assert not is_full(OSError(errno.EIO, "disk"))
    assert not is_full(RuntimeError("No such thing (os error 2)"))
    with pytest.raises(OSError, match="disk"), atomic(tmp_path / "a"):
        raise OSError(errno.EIO, "disk")


def test_bytes_are_written_whole(tmp_path):
    write_bytes(tmp_path / "new" / "a", b"whole")
    assert (tmp_path / "new" / "a").read_bytes() == b"whole"
    assert len(list((tmp_path / "new").iterdir())) == 1
