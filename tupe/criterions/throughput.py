"""The used share of a device's peak in pre-training, an estimate: what the batches need by what it could do."""

from __future__ import annotations

import functools
import re
from typing import Optional

import torch
from torch import nn

#: Teraflops with 16-bit numbers, dense, as the makers publish them; the words are looked for in the device's name.
_TERAFLOPS = (
    ({"B200"}, 2250),
    ({"H100", "PCIe"}, 756),
    ({"H100", "NVL"}, 835),
    ({"H100"}, 989),
    ({"H200"}, 989),
    ({"GH200"}, 989),
    ({"A100"}, 312),
    ({"A30"}, 165),
    ({"A40"}, 150),
    ({"A10"}, 125),
    ({"L40S"}, 362),
    ({"L4"}, 121),
    ({"V100"}, 125),
    ({"T4"}, 65),
)


#: What `peak_flops` knows.
KNOWN_DEVICES = tuple(" ".join(sorted(words)) for words, _ in _TERAFLOPS)


def peak_flops(name: str) -> Optional[float]:
    """Operations a second with 16-bit numbers of the device that PyTorch calls `name`; None if it is not known."""
    words = set(re.split(r"[\s-]+", name))
    return next((1e12 * teraflops for wanted, teraflops in _TERAFLOPS if wanted <= words), None)


@functools.cache
def _peak(device: torch.device) -> Optional[float]:
    return peak_flops(torch.cuda.get_device_name(device)) if device.type == "cuda" else None


def training_flops(encoder: nn.Module, tokens: int, length: int, predicted: int) -> int:
    """Operations of a forward and a backward pass: 6 a weight and token, 12 a width and key in attention.

    Left out: what is computed once a batch (the position terms), what activation checkpointing computes again, and that
    Linformer's keys and values are fewer.

    Args:
        encoder: a `TupeLanguageModelEncoder`.
        tokens: without padding.
        length: of the sequences, `T`.
        predicted: positions with logits.
    """
    head = encoder.lm_head.dense.weight.numel() + encoder.lm_head.weight.numel()
    keys = min(length, encoder.args.linformer_k or length)
    attention = keys * encoder.args.encoder_embed_dim * encoder.args.encoder_layers
    return 6 * (tokens * _layer_weights(encoder) + predicted * head) + 12 * tokens * attention


@functools.lru_cache(maxsize=1)  # the model that is being trained
def _layer_weights(encoder: nn.Module) -> int:
    return sum(weight.numel() for weight in encoder.sentence_encoder.layers.parameters() if weight.ndim == 2)


def seconds_at_peak(encoder: nn.Module, src_tokens: torch.Tensor, tokens: int, predicted: int) -> Optional[float]:
    """How long the device would need at its 16-bit peak; None if that is not known, or the numbers have 32 bits."""
    weight = encoder.lm_head.dense.weight
    peak = _peak(src_tokens.device)
    if peak is None or (weight.dtype == torch.float32 and not torch.is_autocast_enabled()):
        return None
    return training_flops(encoder, tokens, src_tokens.shape[1], predicted) / peak
