"""Who uses the kernels follows from the record: in one process, in two, and where the variable turns it off."""

import json
import logging
import os
import subprocess
import sys
from types import SimpleNamespace

import pytest
import torch

from tupe.attention import biased, packed_attention, prefers_structured, takes_packed, triton_support
from tupe.attention.biased import BACKENDS, biased_attention, choose_backend
from tupe.attention.sdpa import sdpa
from tupe.attention.verification import compiler, ensure, trusted
from tupe.attention.verification.check import Outcome
from tupe.attention.verification.machine import Machine
from tupe.attention.verification.record import Record, load, record_path, save, save_compiler
from tupe.errors import UserError
from tupe.position import StructuredBias

GPU = torch.device("cuda", 0)
CPU = torch.device("cpu")
HERE = Machine("GPU", "9.0", "580.65", "3.7.1", "13.3.33", "abc")
BF16 = torch.bfloat16


@pytest.fixture
def gpu(monkeypatch, tmp_path):
    """A GPU with Triton and an empty cache; records count."""
    monkeypatch.setenv("TUPE_CHECK_KERNELS", "1")
    monkeypatch.setenv("TUPE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (9, 0))
    monkeypatch.setattr(triton_support, "HAS_TRITON", True)
    monkeypatch.setattr(Machine, "of", classmethod(lambda cls, device: HERE))
    monkeypatch.setattr(compiler, "candidate", lambda capability: None)
    monkeypatch.setattr(compiler, "warning", lambda capability: None)
    monkeypatch.setattr(biased, "logged", set())
    monkeypatch.setattr(trusted, "_records", {})
    return monkeypatch


def query(dtype=BF16):
    return SimpleNamespace(device=GPU, dtype=dtype, shape=(2, 3, 5, 64), numel=lambda: 1)


def chosen(bias, backend="auto", dtype=BF16):
    return choose_backend(backend, query(dtype), query(dtype), bias, padded=False)


def test_without_a_record_auto_takes_pytorchs_and_names_the_command(gpu, caplog):
    parts = StructuredBias(torch.zeros(1), torch.zeros(1))
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            assert chosen(torch.zeros(1)) is sdpa
    assert len(caplog.messages) == 1
    assert "run `tupe doctor` once" in caplog.messages[0]
    assert chosen(parts) is BACKENDS["factors"]
    assert chosen(torch.zeros(1), "triton") is BACKENDS["triton"]  # asked for by name
    assert not takes_packed("auto", GPU, BF16, 64)
    assert takes_packed("triton", GPU, BF16, 64)
    assert not prefers_structured("auto", GPU, 4096, 64, dtype=BF16)


def test_a_record_is_followed_by_type_and_kind(gpu):
    save(Record(HERE, passed=("bfloat16 dense", "bfloat16 packed")))
    assert chosen(torch.zeros(1)) is BACKENDS["triton"]
    assert chosen(torch.zeros(1), dtype=torch.float16) is sdpa
    assert chosen(StructuredBias(relative=torch.zeros(1))) is sdpa
    assert takes_packed("auto", GPU, BF16, 64)
    assert not prefers_structured("auto", GPU, 4096, 64, dtype=BF16)
    save(Record(HERE, passed=("bfloat16 structured",)))
    gpu.setattr(trusted, "_records", {})
    assert prefers_structured("auto", GPU, 4096, 64, dtype=BF16)
    assert load(HERE).passed == ("bfloat16 dense", "bfloat16 packed", "bfloat16 structured")


def test_kernels_that_were_wrong_are_used_by_nobody(gpu, caplog):
    save(Record(HERE, passed=("bfloat16 dense",)))
    save(Record(HERE, failed={"bfloat16 dense": "the output is off", "bfloat16 packed": "the output is off"}))
    with caplog.at_level(logging.WARNING):
        assert chosen(torch.zeros(1)) is sdpa
        assert chosen(torch.zeros(1), "triton") is sdpa
    assert "the output is off" in caplog.messages[0]
    assert "tupe doctor" in caplog.messages[0]
    tokens = torch.zeros(4, 2, 16, dtype=BF16)
    trusted.trust(CPU, load(HERE))
    gpu.setattr(triton_support, "device_obstacle", lambda device: None)
    with pytest.raises(UserError, match="the output is off"):
        packed_attention(tokens, tokens, tokens, cu_seqlens=torch.tensor([0, 4]), max_length=4, scale=1.0)


def test_the_variable_turns_it_off(gpu):
    gpu.setenv("TUPE_CHECK_KERNELS", "0")
    save(Record(HERE, failed={"bfloat16 dense": "the output is off"}))
    assert chosen(torch.zeros(1)) is BACKENDS["triton"]


def test_another_machine_has_another_record(gpu):
    save(Record(HERE, passed=("bfloat16 dense",)))
    for name in ("gpu", "driver", "triton", "ptxas", "kernels"):
        other = Machine(**{**vars(HERE), name: "another"})
        assert load(other) == Record(other)


def test_a_damaged_record_is_none(gpu):
    save(Record(HERE, passed=("bfloat16 dense",)))
    record_path(HERE).write_text('{"version": 1, "machine": ')
    assert load(HERE) == Record(HERE)
    assert chosen(torch.zeros(1)) is sdpa


def test_a_training_checks_once_and_keeps_the_record(gpu, caplog):
    calls = []

    def check(device, machine, dtypes, kinds):
        calls.append((dtypes, kinds))
        return Outcome(
            Record(machine, tuple(f"bfloat16 {kind}" for kind in kinds if kind != "dense")),
            broken={"bfloat16 dense": "it does not compile"},
        )

    gpu.setattr("tupe.attention.verification.check.check_kernels", check)
    with caplog.at_level(logging.WARNING):
        for expected in (["dense", "structured", "packed"], ["dense"]):  # an error is not kept, and tried again
            gpu.setattr(trusted, "_records", {})
            ensure.ensure_checked(GPU, BF16)
            assert calls[-1] == ([BF16], expected)
    assert "bfloat16 dense: it does not compile; `tupe doctor`" in caplog.messages[0]
    assert chosen(torch.zeros(1)) is sdpa
    assert takes_packed("auto", GPU, BF16, 64)
    gpu.setenv("TUPE_CHECK_KERNELS", "0")
    ensure.ensure_checked(GPU, BF16)
    assert len(calls) == 2


def test_compiled_code_asks_once_and_breaks_no_graph(gpu):
    gpu.setattr(triton_support, "device_obstacle", lambda device: None)
    x = torch.randn(1, 2, 5, 8)
    attend = torch.compile(lambda q, b: biased_attention(q, q, q, b, scale=1.0), backend="eager", fullgraph=True)
    bias = torch.randn(2, 5, 5)
    torch.testing.assert_close(attend(x, bias), biased_attention(x, x, x, bias, scale=1.0, backend="reference"))


TWO = """
import json, sys, torch
from tupe.attention import triton_support
from tupe.attention.verification import ensure, trusted
from tupe.attention.verification.record import KINDS
rank, store, dtype = int(sys.argv[1]), sys.argv[2], torch.float32
triton_support.device_obstacle = ensure.device_obstacle = lambda device: None
torch.distributed.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
cpu = torch.device("cpu")
ensure.ensure_checked(cpu, dtype)
print(json.dumps({kind: trusted.distrust(cpu, dtype, kind) for kind in KINDS}))
torch.distributed.destroy_process_group()
"""


def test_two_processes_follow_the_check_of_one(gpu, tmp_path):
    """A key gradient is wrong on purpose: both processes say so, from one check, and the record is in the cache."""
    from tests.attention.verification.test_check import broken_package

    package = broken_package(tmp_path, "key_gradient.py", "dk += multiply(ds", "dk += 0.5 * multiply(ds")
    more = {"PYTHONPATH": str(package), "TRITON_INTERPRET": "1", "TUPE_CACHE_DIR": str(tmp_path / "cache")}
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", TWO, str(rank), str(tmp_path / "store")],
            env={**os.environ, **more, "LOCAL_RANK": str(rank)}, cwd=package, stdout=subprocess.PIPE, text=True,
        )
        for rank in range(2)
    ]  # fmt: skip
    said = [json.loads(process.communicate(timeout=300)[0].splitlines()[-1]) for process in processes]
    assert said[0] == said[1]
    assert all("the gradient of key is " in wrong and "tupe doctor" in wrong for wrong in said[0].values())
    (record,) = (tmp_path / "cache").glob("kernels-*.json")
    assert set(json.loads(record.read_text())["failed"]) == {f"float32 {kind}" for kind in said[0]}


def test_the_newer_ptxas_is_used_where_a_tiny_kernel_ran(gpu, tmp_path):
    newer, tried = tmp_path / "ptxas", []
    gpu.delenv(compiler.VARIABLE, raising=False)
    gpu.setattr(compiler, "candidate", lambda capability: None if os.environ.get(compiler.VARIABLE) else newer)
    gpu.setattr(compiler, "ptxas_version", lambda path: "13.3.33")
    gpu.setattr(compiler, "runs", lambda path, device: tried.append(path) or len(tried) > 1)
    ensure.machine_with_compiler(GPU)
    assert not tried and compiler.VARIABLE not in os.environ  # reading a record runs nothing
    ensure.machine_with_compiler(GPU, tries=True)
    ensure.machine_with_compiler(GPU, tries=True)
    assert tried == [newer] and compiler.VARIABLE not in os.environ  # it failed, which is remembered
    save_compiler(HERE, "13.3.33", True)
    gpu.setenv(compiler.VARIABLE, "")  # so that the test leaves none behind
    ensure.machine_with_compiler(GPU)
    assert os.environ[compiler.VARIABLE] == str(newer)
