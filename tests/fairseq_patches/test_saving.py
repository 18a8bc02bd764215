"""Checkpoints are whole after a kill and on a full disk."""

import hashlib
import os
import shutil
from pathlib import Path

import pytest
import torch
from fairseq import checkpoint_utils

from tupe.fairseq_patches.patching import patched


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_kill_while_the_last_checkpoint_is_copied(train, trained, tmp_path, monkeypatch):
    last = tmp_path / "checkpoint_last.pt"
    last.write_bytes((trained / "checkpoint_last.pt").read_bytes())
    before = digest(last)

    def killed(source, target):
        Path(target).write_bytes(Path(source).read_bytes()[:1000])
        raise SystemExit

    monkeypatch.setattr(shutil, "copyfile", killed)
    with pytest.raises(SystemExit):
        train(tmp_path, "--max-update", 5)
    assert digest(last) == before


def test_what_a_killed_save_left_is_deleted(train, tmp_path):
    left = tmp_path / ".checkpoint_last.pt.7.part"
    left.touch()
    train(tmp_path, "--max-update", 1)
    assert not left.exists()


def test_disk_that_is_full_when_a_checkpoint_is_written(tmp_path):
    """fairseq writes three times into one file, and renames it."""
    last = tmp_path / "checkpoint_last.pt"
    last.write_bytes(b"the one before")
    (tmp_path / f".{last.name}.{os.getpid()}.part").symlink_to("/dev/full")
    with patched(), pytest.raises(Exception, match=r"fail|space"):
        checkpoint_utils.torch_persistent_save({"weight": torch.zeros(1000)}, str(last))
    assert last.read_bytes() == b"the one before"
    assert [path.name for path in tmp_path.iterdir()] == [last.name]
