"""Checkpoints are whole after a kill and on a full disk, and the plan knows how much room they take."""

import errno
import hashlib
import logging
import os
import re
import resource
import shutil
import signal
from collections import namedtuple
from pathlib import Path

import pytest
import torch
from fairseq import checkpoint_utils

from tests.commands import ROOT
from tupe.errors import UserError
from tupe.fairseq_patches.patching import patched
from tupe.fairseq_patches.printing import LOG
from tupe.files import atomic_files
from tupe.plan import Launch, plan, read_config


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


def test_what_a_save_left_on_another_machine_goes(train, tmp_path):
    left = tmp_path / ".checkpoint_last.pt.elsewhere.7.tupe-part"
    left.touch()
    os.utime(left, (0, 0))
    train(tmp_path, "--max-update", 1)
    assert not left.exists()


@pytest.fixture
def disk(monkeypatch):
    """A disk on which 1,000 bytes are free."""
    usage = namedtuple("Usage", "total used free")(0, 0, 1000)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)


def test_disk_that_is_full_when_a_checkpoint_is_written(train, trained, tmp_path, disk, monkeypatch):
    """The real error of a real write: `atomic`'s temporary file is /dev/full, which has no room."""
    last = tmp_path / "checkpoint_last.pt"
    last.write_bytes((trained / "checkpoint_last.pt").read_bytes())
    before = digest(last)
    refused = tmp_path / "checkpoint_1_4.pt"
    name = f".{refused.name}.{atomic_files._HERE}.{os.getpid()}{atomic_files._UNFINISHED}"
    (tmp_path / name).symlink_to("/dev/full")
    with pytest.raises(UserError) as ended:
        train(tmp_path, "--max-update", 6, "--save-interval-updates", 4)
    said = re.fullmatch(
        rf"{refused} cannot be written, as the disk is full: of its ([\d,]+) bytes ([\d,]+) do not fit; make room, "
        r"or give another place\. The checkpoints before it are whole, and the same command goes on\.",
        str(ended.value),
    )
    needed, missing = (int(number.replace(",", "")) for number in said.groups())
    assert missing == needed - 1000
    assert needed == pytest.approx(last.stat().st_size, rel=0.02)
    assert digest(last) == before
    assert not list(tmp_path.glob(".*"))
    train(tmp_path, "--max-update", 6)
    assert torch.load(last, weights_only=True)["optimizer_history"][-1]["num_updates"] == 6


def test_a_file_that_may_not_be_as_large(tmp_path):
    """PyTorch hides the system's error, EFBIG, behind one of its own."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    try:
        with patched(), pytest.raises(UserError, match=r"cannot be written \(File too large\): the checkpoints before"):
            checkpoint_utils.torch_persistent_save({"weight": torch.zeros(1000)}, str(tmp_path / "checkpoint.pt"))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    assert not list(tmp_path.iterdir())


def test_disk_that_is_full_when_a_checkpoint_is_copied(train, tmp_path, disk, monkeypatch):
    def full(source, target):
        Path(target).write_bytes(b"half")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(shutil, "copyfile", full)
    with pytest.raises(UserError, match=r"checkpoint_best\.pt cannot be written, as the disk is full: of its .* not"):
        train(tmp_path, "--save-interval-updates", 2)
    assert [path.name for path in tmp_path.glob("checkpoint*")] == ["checkpoint_1_2.pt"]


def test_log_on_a_full_disk_is_one_line(train, tmp_path, capsys):
    (tmp_path / LOG).symlink_to("/dev/full")
    train(tmp_path)
    for _ in range(2):
        logging.getLogger("tests").warning("a line of the log")  # whatever level fairseq's loggers have by now
    said = capsys.readouterr().err
    assert said.count("cannot be written: No space left on device") == 1
    assert "Traceback" not in said


@pytest.mark.parametrize("wide", [16, 64])
def test_the_plan_holds_what_a_run_writes(wide, corpus, train, tmp_path, monkeypatch):
    size = {"encoder_layers": 1, "encoder_embed_dim": wide, "encoder_ffn_embed_dim": wide, "encoder_attention_heads": 2}
    keep = {"save_interval_updates": 2, "keep_interval_updates": 2}
    keys = [f"+model.{key}={value}" for key, value in size.items()]
    keys += [f"checkpoint.{key}={value}" for key, value in (keep | {"keep_interval_updates_pattern": -1}).items()]
    cfg = read_config(
        ROOT / "configs/pretraining", "base",
        [f"task.data={corpus}", f"checkpoint.save_dir={tmp_path}", "common.fp16=false", "model._name=tupe_tiny",
         "task.tokens_per_sample=32", "optimization.max_update=12", "lr_scheduler.warmup_updates=0", *keys],
    )  # fmt: skip
    said = list(plan(cfg, Launch(nodes=1, processes=1, gpus=0)))[-1]
    number, planned, unit = re.search(r"at most (\d+) of ([\d.]+)([kM])B", said).groups()
    most, replace = [], os.replace

    def counted(source, target):
        most.append(len(list(tmp_path.glob("checkpoint*")) + list(tmp_path.glob(".checkpoint*"))))
        replace(source, target)

    monkeypatch.setattr(os, "replace", counted)
    flags = [part for key, value in (size | keep).items() for part in (f"--{key.replace('_', '-')}", value)]
    train(tmp_path, "--max-update", 12, *flags)
    assert max(most) == int(number)
    written = (tmp_path / "checkpoint_last.pt").stat().st_size
    assert 0.8 * float(planned) < written / {"k": 1e3, "M": 1e6}[unit] <= 1.005 * float(planned)
