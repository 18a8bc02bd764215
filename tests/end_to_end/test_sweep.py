"""The GLUE sweep by its script: interrupted, broken, on several workers; the table of it; predictions."""

import json
import os
import re
import signal
import subprocess
import time

import pytest

from tests.commands import ROOT, environment, run, train, tupe
from tupe.experiments.runs import Run, failure, result
from tupe.util import lock

TINY = ("--encoder-layers", 2, "--encoder-embed-dim", 32, "--encoder-ffn-embed-dim", 64, "--encoder-attention-heads", 2)


@pytest.fixture(scope="module")
def checkpoint(corpus, tmp_path_factory):
    folder = tmp_path_factory.mktemp("pretrained")
    train(corpus, folder, "--arch", "tupe_tiny", *TINY, "--max-update", 6)
    return folder / "checkpoint_last.pt"


def command(checkpoint, glue, out, *overrides):
    settings = ("optimization.max_epoch=1", "dataset.num_workers=0")
    return [str(part) for part in ("bash", "scripts/glue.sh", checkpoint, glue, out, *settings, *overrides)]


def test_interrupted_broken_and_failed_runs(checkpoint, glue, tmp_path, capsys):
    pytest.importorskip("hydra_plugins.hydra_joblib_launcher")
    out = tmp_path / "it's a (sweep), é=[1]"
    first, second, failing = (out / Run("MNLI", lr, 1).folder for lr in (1e-3, 1e-4, 1e30))
    grid = {"TASKS": "MNLI", "LRS": "1e-3,1e-4", "SEEDS": "1"}
    deadline = time.monotonic() + 600

    def start_until(log):
        process = subprocess.Popen(
            command(checkpoint, glue, out), cwd=ROOT, env=environment(**grid), stderr=subprocess.PIPE, text=True,
            start_new_session=True,
        )  # fmt: skip
        while not log.exists():
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.05)
        return process

    killed = start_until(first / "log")
    killed.kill()  # alone: what it has started ends by itself
    killed.communicate(timeout=60)
    ended(first, deadline)
    assert result(first) is None

    process = start_until(second / "log")
    os.killpg(process.pid, signal.SIGINT)  # Ctrl-C
    said = process.communicate(timeout=60)[1]
    assert "interrupted with 1 of 2 runs done" in said
    assert "Traceback" not in said
    assert result(first) is not None
    assert result(second) is None
    ended(second, deadline)

    written = (first / "result.json").stat().st_mtime_ns
    done = run(*command(checkpoint, glue, out), **grid)
    table = done.stdout
    assert (first / "result.json").stat().st_mtime_ns == written
    assert re.search(r"\| tupe_tiny encoder_layers=2 .*, 6 updates \|", table)
    assert "runs)" not in table
    metrics = result(first).metrics
    assert result(first).score == pytest.approx(metrics["valid"]["accuracy"], abs=1e-3)
    mismatched = [result(folder).metrics["valid1"]["accuracy"] for folder in (first, second)]
    assert any(f"| {score:.2f} |" in table for score in mismatched)
    assert len(list(out.glob("MNLI/*/*/checkpoint_*.pt"))) == 1  # of the better

    (first / "result.json").unlink()
    grid["LRS"] += ",1e30"
    again = run(*command(checkpoint, glue, out, "hydra/launcher=joblib", "hydra.launcher.n_jobs=2"), **grid)
    failed = "failed: MNLI, lr 1e+30, seed 1: FloatingPointError: gradients are Nan/Inf"
    assert failed in again.stderr, again.stderr[-4000:]
    assert failure(failing) == "FloatingPointError: gradients are Nan/Inf"
    assert "(2 of 3 runs)" in again.stdout
    assert scores(table) == scores(again.stdout.replace(" (2 of 3 runs)", ""))

    grid["LRS"] = "1e30"
    failed = run(*command(checkpoint, glue, out), check=False, **grid)
    assert failed.returncode == 1
    assert failed.stderr.endswith(
        f"error: all 1 run(s) in {out} failed: the reasons are above, and in their folders.\n"
    )

    assert tupe("table", f"TUPE-R={out}", "--published", "base", "--format", "json") == 0
    as_json = json.loads(capsys.readouterr().out)
    assert as_json[0]["system"] == "TUPE-R"
    assert as_json[0]["cells"]["MNLI-m"]["failed"] == 1
    assert as_json[1]["source"] == "TUPE, table 1"


def ended(folder, deadline):
    """Waits for the process that does a run, and holds its lock, to be gone."""
    with lock(folder.with_name(f".{folder.name}.lock"), wait=True):
        assert time.monotonic() < deadline


def scores(printed):
    return next(line for line in printed.splitlines() if line.startswith("| tupe_tiny"))
