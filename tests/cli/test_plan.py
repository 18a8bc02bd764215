"""`--start`: the training takes the place of the plan, and the folder is its own."""

import contextlib
import os
import shutil
import sys

import pytest

from tupe.cli.main import main
from tupe.files import LOCK, lock


@pytest.fixture
def arguments(corpus, tmp_path):
    settings = (f"task.data={corpus}", "common.fp16=false", "common.cpu=true", f"checkpoint.save_dir={tmp_path / 'a'}")
    start = ("--start", sys.executable, "-c", "print()", "--config-dir", "x")
    settings += ("model._name=tupe_tiny", "task.tokens_per_sample=32", "optimization.max_update=20000")
    return ["plan", "--max-unused", "1", "configs/pretraining", "base", *settings, *start]


def test_the_training_holds_the_folder(arguments, tmp_path, monkeypatch, capsys):
    started = []

    def become(file, command):
        with lock(tmp_path / "a" / LOCK) as mine:
            held = [fd for fd in map(int, os.listdir("/proc/self/fd")) if fd > 2 and inheritable(fd)]
        kept = str(tmp_path / "a" / LOCK) in [os.readlink(f"/proc/self/fd/{fd}") for fd in held]
        started.append((file, command[1:], mine, kept))

    monkeypatch.setattr(os, "execvp", become)
    assert main(arguments) == 0, capsys.readouterr().err
    assert started == [(sys.executable, ["-c", "print()", "--config-dir", "x"], None, True)]
    with lock(tmp_path / "a" / LOCK):
        assert main(arguments) == 1
        assert "another process is working in" in capsys.readouterr().err
        arguments[1:1] = ["--nodes", "2", "--node-rank", "1"]  # of another machine
        assert main(arguments) == 0, capsys.readouterr().err
    assert len(started) == 2


def test_a_machine_of_no_number(arguments, capsys):
    assert main([arguments[0], "--nodes", "2", "--node-rank", "2", *arguments[1:]]) == 1
    assert capsys.readouterr().err.startswith("error: --node-rank 2 is none of the 2 machines, numbered from 0")


@pytest.fixture
def become(monkeypatch):
    """The trainings that were started, which leave a checkpoint."""
    started = []
    monkeypatch.setattr(os, "execvp", lambda file, command: started.append(command))
    return started


def test_the_training_gets_the_pluses_that_hydra_wants(arguments, become):
    assert main([*arguments, "model.relative=clipped", "+model._name=tupe_tiny", "task.data=a"]) == 0
    assert become[0][-3:] == ["+model.relative=clipped", "model._name=tupe_tiny", "task.data=a"]


def test_the_folder_is_of_one_model_and_one_corpus(arguments, become, corpus, tmp_path, capsys):
    def say(*more):
        at = arguments.index("--start")
        status = main([*arguments[:at], *more, *arguments[at:]])
        return status, capsys.readouterr().err

    another = shutil.copytree(corpus, tmp_path / "another")
    with (another / "dict.txt").open("a") as lines:
        lines.write("word 1\n")
    assert say() == say("model._name=tupe_r_tiny") == (0, "")  # nothing is learnt yet
    assert say() == (0, "")
    (tmp_path / "a/checkpoint_1_2.pt").touch()
    for same in (
        ("optimization.max_update=30000", "model.dropout=0", "dataset.batch_size=8", "optimization.update_freq=[4]"),
        (f"task.data={shutil.copytree(corpus, tmp_path / 'moved')}",),
    ):
        assert say(*same) == (0, "")
    before = len(become)
    for other, said in (
        (("model._name=bert_a_tiny",), "model.absolute = untied, not input"),
        (("+model.relative=unbinned",), "model.relative = bucketed, not unbinned"),
        (("task.tokens_per_sample=16",), "model.max_positions = 32, not 16"),
        ((f"task.data={another}",), "data.folder 0.dict.txt = "),
        ((f"task.data={corpus}:{corpus}",), "data.folder 1 = unset, not "),
    ):
        status, error = say(*other)
        assert status == 1
        assert error.startswith(f"error: {tmp_path / 'a'} was begun with {said}")
        assert error.endswith(": set checkpoint.save_dir to another folder, or remove this one to train anew.\n")
    assert say("--node-rank", "1", "--nodes", "2", *other) == (1, error)  # its machine does not wait for the first
    assert len(become) == before


def test_checkpoints_of_before_are_gone_on_with(arguments, become, tmp_path):
    """Of a run without an identity, as `fairseq-hydra-train` leaves it, and beside a scheduler's logs."""
    (tmp_path / "a").mkdir()
    for name in ("checkpoint_last.pt", "slurm-1.out"):
        (tmp_path / "a" / name).touch()
    assert main(arguments) == 0
    assert not (tmp_path / "a/.tupe.json").exists()
    assert len(become) == 1


def inheritable(fd):
    with contextlib.suppress(OSError):
        return os.get_inheritable(fd)
