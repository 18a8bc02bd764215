"""`--start`: the training takes the place of the plan, and the folder is its own."""

import contextlib
import os
import sys

import pytest

from tupe.cli import pretraining_plan
from tupe.cli.main import main
from tupe.files import LOCK, lock


@pytest.fixture
def arguments(corpus, tmp_path):
    settings = (f"task.data={corpus}", "common.fp16=false", "common.cpu=true", f"checkpoint.save_dir={tmp_path / 'a'}")
    start = ("--start", sys.executable, "-c", "print()", "--config-dir", "x")
    settings += ("model._name=tupe_tiny", "task.tokens_per_sample=32", "optimization.max_update=20000")
    return ["pretraining-plan", "configs/pretraining", "base", *settings, *start]


def test_the_training_holds_the_folder(arguments, tmp_path, monkeypatch, capsys):
    started = []

    def become(file, command):
        with lock(tmp_path / "a" / LOCK) as mine:
            held = [fd for fd in map(int, os.listdir("/proc/self/fd")) if fd > 2 and inheritable(fd)]
        kept = str(tmp_path / "a" / LOCK) in [os.readlink(f"/proc/self/fd/{fd}") for fd in held]
        started.append((file, command[1:], mine, kept))

    monkeypatch.setattr(pretraining_plan.os, "execvp", become)
    assert main(arguments) == 0, capsys.readouterr().err
    assert started == [(sys.executable, ["-c", "print()", "--config-dir", "x"], None, True)]
    with lock(tmp_path / "a" / LOCK):
        assert main(arguments) == 1
        assert "another process is training in" in capsys.readouterr().err
        arguments[1:1] = ["--nodes", "2", "--node-rank", "1"]  # of another machine
        assert main(arguments) == 0, capsys.readouterr().err
    assert len(started) == 2


def inheritable(fd):
    with contextlib.suppress(OSError):
        return os.get_inheritable(fd)
