"""Which attention is chosen where, and what the log says of it."""

import logging
import os
import subprocess
import sys
from types import SimpleNamespace

import pytest
import torch

from tests.commands import ROOT
from tupe.attention import biased, biased_attention, prefers_structured, takes_packed, triton_support
from tupe.attention.biased import BACKENDS, choose_backend
from tupe.attention.sdpa import sdpa
from tupe.position import StructuredBias


def tensor(device="cuda", dtype=torch.bfloat16, width=64):
    """What the choice looks at, of a tensor on a device that may not be here."""
    return SimpleNamespace(device=torch.device(device), dtype=dtype, shape=(2, 3, 5, width), numel=lambda: 1)


@pytest.fixture
def gpu(monkeypatch):
    """A GPU with Triton; the test may change both."""
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (9, 0))
    monkeypatch.setattr(triton_support, "HAS_TRITON", True)
    return monkeypatch


def test_on_a_gpu(gpu):
    query, bias = tensor(), torch.zeros(1)
    for backend in ("auto", "triton"):
        assert choose_backend(backend, query, query, bias, padded=False) is BACKENDS["triton"]
    assert choose_backend("auto", query, query, None, padded=True) is BACKENDS["triton"]
    assert choose_backend("auto", query, query, None, padded=False) is sdpa  # FlashAttention
    assert choose_backend("triton", query, query, None, padded=False) is BACKENDS["triton"]
    assert choose_backend("sdpa", query, query, bias, padded=False) is sdpa


def test_parts_are_preferred_where_the_kernels_take_them_and_it_pays(gpu):
    long, device = triton_support.STRUCTURED_LENGTH, torch.device("cuda")
    assert prefers_structured("auto", device, long, 64) and prefers_structured("auto", "cuda", long, 64)
    assert takes_packed("auto", "cuda", torch.bfloat16, 64) and not takes_packed("auto", "cpu", torch.bfloat16, 64)
    assert not prefers_structured("auto", device, long - 1, 64)
    assert prefers_structured("triton", device, 16, 128, segments=True)
    assert not prefers_structured("triton", device, 16, 129, segments=True)
    assert not prefers_structured("sdpa", device, long, 64)
    assert not prefers_structured("auto", torch.device("cpu"), long, 64, segments=True)
    assert not prefers_structured("auto", device, 16, 64, in_factors=True)


def test_wider_heads_where_the_kernels_are_missing(gpu):
    device, parts = torch.device("cuda"), StructuredBias(torch.zeros(1), torch.zeros(1))
    assert choose_backend("auto", tensor(), tensor(), parts, padded=False) is BACKENDS["triton"]
    gpu.setattr(torch.cuda, "get_device_capability", lambda device: (7, 0))  # a V100
    assert prefers_structured("auto", device, 16, 64, in_factors=True)
    assert not prefers_structured("auto", device, 16, 64, in_factors=False)
    assert not prefers_structured("sdpa", device, 16, 64, in_factors=True)
    assert choose_backend("auto", tensor(), tensor(), parts, padded=False) is BACKENDS["factors"]
    by_distance = parts._replace(relative=torch.zeros(1))
    for backend in ("auto", "factors"):
        assert choose_backend(backend, tensor(), tensor(), by_distance, padded=False) is sdpa
    assert prefers_structured("factors", torch.device("cpu"), 16, 64, in_factors=True)


@pytest.mark.parametrize(
    ("query", "value", "why"),
    [
        (tensor("cpu"), tensor("cpu"), "NVIDIA GPU"),
        (tensor(dtype=torch.float64), tensor(dtype=torch.float64), "float64"),
        (tensor(width=136), tensor(width=136), "128"),
        (tensor(width=64), tensor(width=32), "one width"),
    ],
)
def test_what_the_kernels_cannot_take(gpu, query, value, why):
    assert why in triton_support.obstacle(query, value, None)
    assert choose_backend("triton", query, value, None, padded=False) is sdpa


@pytest.mark.parametrize(("kibibytes", "column"), [(227, "large"), (163, "small"), (99, "small")])
def test_tiles_by_shared_memory(gpu, kibibytes, column):
    tiles = pytest.importorskip("tupe.attention.kernels.tiles")
    properties = SimpleNamespace(shared_memory_per_block_optin=kibibytes * 1024)
    gpu.setattr(torch.cuda, "get_device_properties", lambda device: properties)
    assert tiles.memory(torch.device("cuda")) == column


def test_gpus_that_are_too_old(gpu):
    gpu.setattr(torch.cuda, "get_device_capability", lambda device: (7, 5))
    assert "8.0" in triton_support.obstacle(tensor(), tensor(), None)


def test_factors_that_are_too_wide(gpu):
    bias = StructuredBias(*(torch.zeros(3, 5, 256, device="meta") for _ in range(2)))
    assert "128" in triton_support.obstacle(tensor(), tensor(), bias)


def test_without_triton(gpu):
    gpu.setattr(triton_support, "HAS_TRITON", False)
    assert "not installed" in triton_support.obstacle(tensor(), tensor(), None)


def test_the_log_says_it_once(caplog, monkeypatch):
    monkeypatch.setattr(biased, "logged", set())
    query = torch.zeros(1, 1, 3, 4)
    with caplog.at_level(logging.INFO):
        for backend in ("auto", "triton", "auto"):
            biased_attention(query, query, query, torch.zeros(1, 3, 3), scale=1.0, backend=backend)
    assert caplog.messages == [
        "attention by PyTorch's scaled_dot_product_attention: the Triton kernels need an NVIDIA GPU"
    ]


def test_no_queries_are_nothing_for_the_kernels(monkeypatch):
    """Their backward pass divides by the number of programs."""
    monkeypatch.setattr(triton_support, "device_obstacle", lambda device: None)
    key = torch.zeros(1, 2, 5, 16)
    assert triton_support.obstacle(key[:, :, :0], key, None) == "there are no queries"
    assert triton_support.obstacle(key, key, None) is None


@pytest.mark.parametrize(("value", "interpreted"), [("true", True), ("0", False)])
def test_whether_triton_interprets_is_read_as_triton_reads_it(value, interpreted):
    pytest.importorskip("triton")
    code = "from tupe.attention.kernels.tile import INTERPRETED; print(INTERPRETED.value)"
    environment = {**os.environ, "TRITON_INTERPRET": value}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == str(interpreted)
