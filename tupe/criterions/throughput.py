"""Estimate which share of a device's peak a pre-training uses: operations of the batches over those possible."""

import functools
import re
from typing import Optional

import torch
from fairseq.distributed import utils as distributed
from fairseq.logging import metrics
from torch import nn

from tupe.criterions.metrics import totals

#: Teraflops with 16-bit numbers, dense, as the makers publish them, by words of the device's name.
_TERAFLOPS = {
    "B200": 2250,
    "H100 PCIe": 756,
    "H100 NVL": 835,
    "H100": 989,
    "H200": 989,
    "GH200": 989,
    "A100": 312,
    "A30": 165,
    "A40": 150,
    "A10": 125,
    "L40S": 362,
    "L4": 121,
    "V100": 125,
    "T4": 65,
}
#: Devices whose peak is known.
KNOWN_DEVICES = tuple(_TERAFLOPS)


def peak_flops(name: str) -> Optional[float]:
    """Return the 16-bit operations a second of the device that PyTorch calls `name`; None if they are not known."""
    words = set(re.split(r"[\s-]+", name.upper()))
    return next((1e12 * peak for device, peak in _TERAFLOPS.items() if {*device.upper().split()} <= words), None)


@functools.cache
def _peak(device: torch.device) -> Optional[float]:
    return peak_flops(torch.cuda.get_device_name(device)) if device.type == "cuda" else None


def training_flops(model: nn.Module, tokens: int, length: int, predicted: int) -> int:
    """Count the operations of both passes: 6 a weight and token, 12 a width and key in attention.

    It leaves out what is computed once a batch (the position terms), what activation checkpointing computes again,
    Linformer's projection, and that its keys and values are fewer.

    Args:
        model: has an `encoder`, a `TupeLanguageModelEncoder`; with a `generator`, another, both do every step.
        tokens: without padding.
        length: of the sequences, `T`.
        predicted: positions with logits.
    """
    if hasattr(model, "generator"):
        generator = _network_flops(model.generator, model.generator.lm_head, tokens, length, predicted)
        return generator + _network_flops(model.encoder, model.discriminator_head, tokens, length, tokens)
    return _network_flops(model.encoder, model.encoder.lm_head, tokens, length, predicted)


def _network_flops(encoder: nn.Module, head: nn.Module, tokens: int, length: int, predicted: int) -> int:
    keys = min(length, encoder.args.linformer_k or length)
    attention = keys * encoder.args.encoder_embed_dim * encoder.args.encoder_layers
    parts = encoder.sentence_encoder.layers, encoder.sentence_encoder.embedding_projection
    return 6 * (tokens * sum(map(_weights, parts)) + predicted * _weights(head)) + 12 * tokens * attention


@functools.lru_cache(maxsize=6)  # enough for the model in training
def _weights(module: nn.Module) -> int:
    once = {"relative", "projection"}  # of vectors of distances, and Linformer's of positions
    return sum(
        weight.numel()
        for name, weight in module.named_parameters()
        if weight.ndim == 2 and once.isdisjoint(name.split("."))
    )


def seconds_at_peak(model: nn.Module, tokens: int, length: int, predicted: int) -> dict[str, float]:
    """Return how long `training_flops` take at the device's 16-bit peak; 0 if unknown, or in 32 bits.

    All processes log the same keys, or fairseq's sum over them would never end: their GPUs may differ.
    """
    weight = model.encoder.sentence_encoder.layers[0].fc1.weight
    peak = _peak(weight.device)
    if peak is None or (weight.dtype == torch.float32 and not torch.is_autocast_enabled()):
        return {"seconds_at_peak": 0.0}
    return {"seconds_at_peak": training_flops(model, tokens, length, predicted) / peak}


def log_throughput(logging_outputs: list[dict]) -> None:
    """Log `padding`, percent of `nslots` that are no `ntokens`, and `mfu` where `seconds_at_peak` is above 0."""
    slots, tokens = totals(logging_outputs, "nslots", "ntokens")
    metrics.log_scalar("padding", 100 * (1 - tokens / max(slots, 1)), slots, round=1)
    seconds = float(sum(log.get("seconds_at_peak", 0) for log in logging_outputs))
    if seconds:
        metrics.log_speed("mfu", 100 * seconds / distributed.get_data_parallel_world_size(), round=1)
