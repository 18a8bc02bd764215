"""The GLUE sweep by its script: killed, interrupted, on two machines, with a failed run; and its table."""

import os
import re
import signal
import subprocess
import time

import pytest

from tests.commands import ROOT, environment, run, train
from tests.end_to_end.test_training import TINY
from tupe.finetune.runs import Run, result
from tupe.util import UserError, lock


@pytest.fixture(scope="module")
def checkpoint(corpus, tmp_path_factory):
    folder = tmp_path_factory.mktemp("pretrained")
    train(corpus, folder, "--arch", "tupe_tiny", *TINY, "--max-update", 6)
    return folder / "checkpoint_last.pt"


def command(checkpoint, glue, out, *overrides):
    settings = ("optimization.max_epoch=1", "dataset.num_workers=0")
    return [str(part) for part in ("bash", "scripts/glue.sh", checkpoint, glue, out, *settings, *overrides)]


def test_killed_interrupted_and_failed_runs(checkpoint, glue, tmp_path, capsys):
    """A sweep that was stopped in two ways has the table of one that was not; so has one of two machines."""
    out = tmp_path / "it's a (sweep), é=[1]"
    first, second, failing = (out / Run("MNLI", lr, 1).folder for lr in (1e-3, 1e-4, 1e30))
    grid = {"TASKS": "MNLI", "LRS": "1e-3,1e-4", "SEEDS": "1"}
    deadline = time.monotonic() + 600

    def start(out, log=None):
        process = subprocess.Popen(
            command(checkpoint, glue, out), cwd=ROOT, env=environment(**grid), stdout=subprocess.PIPE, text=True,
            stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        while log is not None and not log.exists():
            assert process.poll() is None and time.monotonic() < deadline
            time.sleep(0.05)
        return process

    killed = start(out, first / "log")
    killed.kill()  # alone: its run goes on, and keeps its lock
    with pytest.raises(UserError), lock(first.with_name(".seed_1.lock")):
        pass
    process = start(out, second / "log")
    while process.poll() is None:
        os.killpg(process.pid, signal.SIGINT)  # Ctrl-C, until it ends: the run's process may just be starting
        time.sleep(0.5)
    assert process.returncode and result(second) is None
    with lock(first.with_name(".seed_1.lock"), wait=True):
        assert result(first) is not None

    written = (first / "result.json").stat().st_mtime_ns
    table = run(*command(checkpoint, glue, out), **grid).stdout
    assert (first / "result.json").stat().st_mtime_ns == written
    assert re.search(r"\| tupe_tiny encoder_layers=2 .*, 6 updates \|", table) and "runs)" not in table
    assert result(first).score == result(first).metrics["valid"]["accuracy"]
    mismatched = [result(folder).metrics["valid1"]["accuracy"] for folder in (first, second)]
    assert any(f"| {score:.2f} |" in table for score in mismatched)
    assert len(list(out.glob("MNLI/*/*/checkpoint_*.pt"))) == 1  # of the better

    machines = [start(tmp_path / "both") for _ in range(2)]
    assert [scores(machine.communicate(timeout=300)[0]) for machine in machines] == [scores(table)] * 2

    grid["LRS"] += ",1e30"
    failed = run(*command(checkpoint, glue, out), check=False, **grid)
    assert failed.returncode == 1 and "1 of 3 runs failed" in failed.stderr
    assert f"MNLI, lr 1e+30, seed 1: failed, see {failing}/log" in failed.stdout
    assert "FloatingPointError: gradients are Nan/Inf" in (failing / "log").read_text()
    assert scores(table) == scores(failed.stdout.replace(" (2 of 3 runs)", ""))


def scores(printed):
    return next(line for line in printed.splitlines() if line.startswith("| tupe_tiny"))
