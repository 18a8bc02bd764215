"""Checkpoints that are written by commands, not by training."""

import shutil
from types import SimpleNamespace

import pytest
import torch

from tupe.checkpoints import fairseq_checkpoint
from tupe.checkpoints.fairseq_checkpoint import write_state
from tupe.errors import UserError


def test_a_full_disk_says_how_many_bytes_are_missing(tmp_path, monkeypatch):
    """The size that is said is that of the file on a disk with room."""
    state, real = {"model": {"weight": torch.randn(1000)}}, torch.save
    write_state(tmp_path / "whole.pt", state)
    size = (tmp_path / "whole.pt").stat().st_size

    def save(what, file):
        if hasattr(file, "name"):  # a file on the disk, of which /dev/full takes the place
            with open("/dev/full", "wb") as file:
                real(what, file)
        else:
            real(what, file)

    monkeypatch.setattr(fairseq_checkpoint.torch, "save", save)
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: SimpleNamespace(free=100))
    with pytest.raises(UserError, match=rf"new\.pt cannot .* full: of its {size:,} bytes {size - 100:,} do not fit"):
        write_state(tmp_path / "new.pt", state)
    assert [path.name for path in tmp_path.iterdir()] == ["whole.pt"]
