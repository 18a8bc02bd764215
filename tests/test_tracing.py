"""Plain code is not taken for recorded code, whatever PyTorch was built for."""

import torch

from tupe.tracing import is_traced


def test_a_build_for_gpus_without_a_driver(monkeypatch):
    def fails():
        raise RuntimeError("CUDA driver version is insufficient for CUDA runtime version")

    monkeypatch.setattr(torch.version, "cuda", "12.8")
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: False)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", fails)
    assert not is_traced()
