"""Memory of a training step: counted by `benchmarks/memory.py` for a GPU, and measured in a process."""

import importlib
import os
import subprocess
import sys

import pytest
import torch

from tests.commands import ROOT


@pytest.fixture
def memory(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    return importlib.import_module("memory")


def test_what_is_alive_is_counted(memory):
    there = torch.zeros(1000)
    with memory.Live([there]) as live:
        first = there + 1  # 4,000 bytes
        second = first.view(10, 100) * 2  # 4,000 more; the view has no memory of its own
        del first, second
        third = there.add_(1).exp()  # after the first two have ended
    assert (live.now, live.peak) == (4000, 8000)
    del third
    assert live.now == 0


def test_a_dense_bias_grows_with_the_square_of_the_length(memory):
    pytest.importorskip("triton")
    short, long = ({bias: memory.count(1, length, bias) for bias in memory.BIASES} for length in (1024, 2048))
    assert long["none"] < 2.1 * short["none"]
    assert long["structured"] < 2.1 * short["structured"]
    assert long["dense"] > 3.5 * short["dense"]
    # of the bias alone: in float32 the two terms, their sum and what the reset chooses, and no layer's share
    cells = memory.HEADS * 2048**2
    assert 8 * cells < (long["dense"] - long["none"]) * 2**20 < 24 * cells
    assert memory.count(3, 2048, "dense") < 1.2 * long["dense"]


def test_a_cell_is_measured():
    """The matrices of logits and weights of the heads, a few times."""
    code = "import memory; print(memory.in_a_process(1, 512, 'dense'))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT / "benchmarks", capture_output=True, text=True,
                          env={**os.environ, "PYTHONPATH": str(ROOT)}, check=True)  # fmt: skip
    assert 4 * 12 * 512**2 < float(done.stdout) * 2**20 < 100 * 12 * 512**2


def test_a_length_that_cannot_be_is_a_sentence():
    command = [sys.executable, "benchmarks/memory.py", "--lengths", "3", "--layers", "1"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and done.stderr.splitlines()[-1].startswith("error: a sequence of "), done.stderr
    assert "Traceback" not in done.stderr
