"""Findings of the doctor on pretended GPUs."""

from types import SimpleNamespace

import pytest
import torch

from tupe.attention.verification import compiler
from tupe.doctor import gpus
from tupe.doctor.finding import Status

GPU = torch.device("cuda", 0)


@pytest.fixture
def gpu(monkeypatch):
    """An H100 with Triton's own ptxas."""
    properties = SimpleNamespace(
        name="NVIDIA H100", total_memory=80 << 30, multi_processor_count=132, shared_memory_per_block_optin=227 << 10
    )
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (9, 0))
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: properties)
    monkeypatch.setattr(torch.distributed, "is_nccl_available", lambda: False)
    monkeypatch.setattr(gpus, "driver_version", lambda: "580.65.06")
    monkeypatch.setattr(gpus, "package_version", lambda name: "3.7.1")
    monkeypatch.setattr(compiler, "ptxas", lambda capability: "ptxas")
    monkeypatch.setattr(compiler, "ptxas_version", lambda path: "12.8.93")
    return monkeypatch


def test_hopper_with_an_old_ptxas_is_warned_of(gpu):
    software, device, ptxas = gpus.examine([GPU])
    assert "driver 580.65.06, CUDA 13.0 in PyTorch, Triton 3.7.1, NCCL none" in software.text
    assert device.status is Status.OK
    assert "NVIDIA H100, capability 9.0, 80 GiB, 132 multiprocessors, 227 KiB" in device.text
    assert ptxas.status is Status.WARNING
    assert 'pip install "tupe[gpu]", or set TRITON_PTXAS_PATH' in ptxas.text


def test_a_right_ptxas_and_an_old_triton(gpu):
    gpu.setattr(compiler, "ptxas_version", lambda path: "13.3.33")
    gpu.setattr(gpus, "package_version", lambda name: "3.6.0")
    *_, ptxas, triton = gpus.examine([GPU])
    assert ptxas.status is Status.OK
    assert "3.6.0 is older than 3.7.1" in triton.text


def test_other_gpus(gpu):
    gpu.setattr(torch.cuda, "get_device_capability", lambda device: (11, 0))
    assert "untested" in gpus.gpu(GPU).text
    gpu.setattr(torch.cuda, "get_device_capability", lambda device: (7, 0))
    assert gpus.gpu(GPU).status is Status.NOTE
    assert compiler.warning((8, 0)) is None


def test_the_ptxas_of_the_user_comes_first(monkeypatch, tmp_path):
    monkeypatch.setattr(compiler, "wheel_ptxas", lambda: tmp_path / "newer")
    monkeypatch.setattr(compiler, "is_right", lambda path: False)
    monkeypatch.delenv(compiler.VARIABLE, raising=False)
    assert compiler.candidate((9, 0)) == tmp_path / "newer"
    assert compiler.candidate((8, 0)) is None
    monkeypatch.setenv(compiler.VARIABLE, "/usr/bin/ptxas")
    assert compiler.candidate((9, 0)) is None


def test_the_ptxas_of_a_wheel(monkeypatch, tmp_path):
    program = tmp_path / "ptxas"
    program.write_text('#!/bin/sh\necho "Cuda compilation tools, release 13.5, V13.5.37"\n')
    program.chmod(0o755)
    monkeypatch.setattr(compiler, "files", lambda name: [SimpleNamespace(name="ptxas", locate=lambda: program)])
    assert compiler.wheel_ptxas() == program
    program.write_text('#!/bin/sh\necho "Cuda compilation tools, release 12.8, V12.8.93"\n')
    compiler.ptxas_version.cache_clear()
    assert compiler.wheel_ptxas() is None
    compiler.ptxas_version.cache_clear()
