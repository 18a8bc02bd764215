"""The check of the kernels passes right ones under Triton's interpreter, and says what is wrong of broken ones."""

import importlib.util
import json
import shutil

import pytest
import torch

from tests.commands import ROOT, run
from tupe.attention.verification.bounds import error_over_bound
from tupe.attention.verification.cases import random_bits
from tupe.attention.verification.check import Effort, check_kernels
from tupe.attention.verification.machine import Machine

# Not imported here: what imports Triton first decides whether it is interpreted.
pytestmark = pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="needs Triton")
CPU = torch.device("cpu")
BRIEF = Effort(lengths=(20,), whole=16, width=16)


@pytest.fixture
def interpreter(monkeypatch):
    monkeypatch.setenv("TRITON_INTERPRET", "1")


def check(kinds=("dense",), dtype=torch.float32, effort=BRIEF):
    return check_kernels(CPU, Machine.of(CPU), [dtype], list(kinds), effort)


def broken_package(folder, file, line, instead):
    """A copy of the package with a wrong line in a kernel; the folder for PYTHONPATH."""
    shutil.copytree(ROOT / "tupe", folder / "tupe", ignore=shutil.ignore_patterns("__pycache__"))
    path = folder / "tupe" / "attention" / "kernels" / file
    text = path.read_text()
    assert line in text
    path.write_text(text.replace(line, instead))
    return folder


def check_of(package, dtype, kind, effort=BRIEF):
    """Return what the process of the check prints for one case, with the kernels of another package."""
    asked = {"device": "cpu", "pairs": [[dtype, kind]], "effort": vars(effort)}
    command = ["python3", "-m", "tests.from_folder", package, "tupe.attention.verification.check", json.dumps(asked)]
    return json.loads(run(*command, TRITON_INTERPRET="1").stdout.splitlines()[-1])


def test_right_kernels_pass(interpreter):
    outcome = check(("dense", "structured", "packed"))
    assert outcome.record.passed == ("float32 dense", "float32 structured", "float32 packed")
    assert (outcome.record.failed, outcome.broken, outcome.unchecked) == ({}, {}, {})
    assert all(0 < figures["error"] < 1 for figures in outcome.figures.values())


@pytest.mark.parametrize(
    ("file", "line", "instead", "wrong"),
    [
        ("forward.py", "out += multiply(weights", "out += 0.999 * multiply(weights", "the output of whole numbers"),
        ("key_gradient.py", "dk += multiply(ds", "dk += 0.9 * multiply(ds", "the gradient of key is "),
        ("bias_gradient.py", "keep, d_bias)", "keep)", "the gradient of bias is "),
        ("dropout.py", "ROUNDS = tl.constexpr(7)", "ROUNDS = tl.constexpr(6)", "the output of whole numbers"),
    ],
)
def test_a_broken_kernel_is_named(interpreter, tmp_path, file, line, instead, wrong):
    said = check_of(broken_package(tmp_path, file, line, instead), "float32", "dense")
    assert said["wrong"].startswith(wrong)
    assert said["broken"] is None


def test_a_kernel_that_does_not_compile_is_broken_and_not_wrong(interpreter, tmp_path):
    package = broken_package(tmp_path, "forward.py", "total = tl.where(total > 0", "total = tl.wear(total > 0")
    said = check_of(package, "float32", "dense")
    assert said["wrong"] is None
    assert "wear" in said["broken"]


def test_a_process_that_cannot_begin_leaves_the_cases_unchecked(monkeypatch):
    monkeypatch.setenv("TRITON_INTERPRET", "0")  # and there is no GPU
    outcome = check()
    assert outcome.record.passed == ()
    assert outcome.record.failed == outcome.broken == {}
    assert outcome.unchecked["float32 dense"].endswith("without a GPU the kernels need TRITON_INTERPRET=1")


def test_errors_are_multiples_of_the_bound():
    exact = torch.ones(4, dtype=torch.float64)
    assert error_over_bound(torch.ones(4), exact, torch.float32) == 0
    assert error_over_bound(torch.full((4,), 1 + 2e-5), exact, torch.float32) == pytest.approx(1, rel=0.01)
    assert error_over_bound(torch.tensor([1, 1, 1, torch.nan]), exact, torch.float32) != 0


def test_random_bits_are_even():
    bits = random_bits(torch.tensor([12345678901234567]), 3, 64)
    assert bits.shape == (3, 64, 64)
    assert bits.min() >= 0 and bits.max() < 1 << 16
    assert bits.double().mean().item() == pytest.approx((1 << 16) / 2, rel=0.02)
    assert bits.unique().numel() > 10_000
