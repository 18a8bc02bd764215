"""The doctor runs whole on the CPU, by Triton's interpreter, and says what is wrong of broken kernels."""

import importlib.util
import json
import re

import pytest
import torch

from tests.attention.verification.test_check import broken_package
from tests.commands import run, tupe
from tupe.attention.verification import check, trusted
from tupe.attention.verification.check import Outcome
from tupe.attention.verification.record import Record
from tupe.doctor import examine, gpus, installation, kernels, speed, training
from tupe.doctor.finding import Status, failed, ok

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def empty_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("TUPE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("TUPE_CHECK_KERNELS", "1")
    monkeypatch.setattr(trusted, "_records", {})


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="needs Triton")
def test_whole_by_the_interpreter(tmp_path):
    """In a process of its own: what imports Triton first decides whether it is interpreted."""
    lines = run("tupe", "doctor", "--json", tmp_path / "doctor.json", TRITON_INTERPRET="1").stdout.splitlines()
    document = json.loads((tmp_path / "doctor.json").read_text())
    found = {finding["name"]: finding["status"] for finding in document}
    wanted = [*(f"kernels, float32 {kind}" for kind in ("dense", "structured", "packed")), "training step, float32"]
    wanted += ["training step, unpadded", "training step in two processes, float32", "speed, 1 x 16 tokens"]
    assert {name: found.get(name) for name in wanted} == dict.fromkeys(wanted, "ok")
    assert "failed" not in found.values()
    assert len(lines) == len(document) + 1
    (record,) = (tmp_path / "cache").glob("kernels-*.json")
    assert len(json.loads(record.read_text())["passed"]) == 3


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="needs Triton")
def test_a_broken_kernel_is_said_and_recorded(monkeypatch, tmp_path):
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    package = broken_package(tmp_path, "query_gradient.py", "dq += multiply(ds", "dq += 0.9 * multiply(ds")
    monkeypatch.setattr(check, "_PACKAGE", package)
    monkeypatch.setattr(kernels, "KINDS", ("dense",))
    (finding,) = kernels.examine([CPU], full=False)
    assert finding.status is Status.FAILED
    assert "wrong on CPU by Triton's interpreter: the gradient of query is " in finding.text
    assert "the gradient of query" in trusted.distrust(CPU, torch.float32, "dense")


def test_what_does_not_run_is_said_and_not_recorded(monkeypatch):
    def outcome(device, machine, *_):
        return Outcome(
            Record(machine), broken={"float32 dense": "no compiler"}, unchecked={"float32 packed": "no memory"}
        )

    monkeypatch.setattr(kernels, "check_kernels", outcome)
    texts = [finding.text for finding in kernels.examine([CPU], full=False)]
    assert ["do not run" in texts[0], "could not be checked: no memory" in texts[1]] == [True, True]
    assert "were not checked" in trusted.distrust(CPU, torch.float32, "dense")


def test_a_failure_is_the_exit_status_and_no_examination_stops_the_next(monkeypatch, capsys):
    def raises():
        raise RuntimeError("out of\nluck")

    both = [("first", raises), ("second", lambda: iter([ok("second", "well")]))]
    monkeypatch.setattr(examine, "examinations", lambda full: both)
    assert tupe("doctor") == 1
    out, err = capsys.readouterr()
    assert re.match(r"failed +first: .*RuntimeError: out of luck.*\nok +second: well\n\d+ s: 1 ok, 1 failed\n", out)
    assert err.startswith("error: something does not work")


def test_the_file_is_refused_before_the_work(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(examine, "examinations", pytest.fail)
    assert tupe("doctor", "--json", tmp_path) == 1
    assert "is a folder" in capsys.readouterr().err


def test_without_a_gpu_only_the_installation_is_examined(monkeypatch):
    monkeypatch.setenv("TRITON_INTERPRET", "0")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert [name for name, _ in examine.examinations(full=False)] == ["installation", "GPUs"]
    assert [finding.status for finding in gpus.examine([])] == [Status.NOTE]


def test_the_installation(monkeypatch):
    assert installation.compiler().status is Status.OK
    assert installation.headers().status is Status.OK
    assert installation.sentencepiece().status is Status.OK
    monkeypatch.setenv("CXX", "no-such-compiler -O2")
    assert "no-such-compiler: install one" in installation.compiler().text
    monkeypatch.setattr(installation.sysconfig, "get_path", lambda name: "/none")
    assert "/none/Python.h: install them" in installation.headers().text


def test_versions_that_do_not_belong_together(monkeypatch):
    assert installation.conflicts("no-such-package") == []
    wanted = ["numpy>=9999", "sentencepiece", "torchaudio>=0.8", 'nothing-here; extra == "test"', "absent-here"]
    monkeypatch.setattr(installation, "requires", lambda name: wanted)
    first, second = installation.conflicts("tupe")
    assert re.fullmatch(r"tupe requires numpy>=9999, and [\d.]+ is installed", first)
    assert second == "tupe requires absent-here, and missing is installed"


def test_threads_that_spin(monkeypatch):
    monkeypatch.setattr(installation, "available_cores", lambda: 2)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 8)
    assert installation.cores().text.endswith("set OMP_NUM_THREADS=2")


def test_a_step_that_waits_often_is_a_warning():
    line = {"step": "bf16", "error": None, "loss": 3.0, "gradient": 1.0, "attention": "the Triton kernels"}
    assert training.judge("step", {**line, "waits": ["a.py:1"]}).status is Status.OK
    assert training.judge("step", {**line, "waits": ["a.py:1"] * 9}).status is Status.WARNING
    assert training.judge("step", {**line, "waits": [], "error": "out of memory"}) == failed(
        "step, bf16", "out of memory"
    )


def test_a_rival_that_fails_is_left_out(monkeypatch):
    def fails(*_):
        raise ValueError("no kernel")

    monkeypatch.setattr(speed, "rivals", lambda on_gpu: {"one": lambda q, k, v, b: q + k + v + b.mean(), "two": fails})
    (finding,) = speed.examine(CPU)
    assert "two failed (ValueError: no kernel); auto takes" in finding.text
    assert set(finding.facts["milliseconds"]) == {"one"}
