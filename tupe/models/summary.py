"""Sizes of the named models, without allocating them."""

from __future__ import annotations

from functools import lru_cache

import torch
from fairseq.data import Dictionary

from tupe.models.config import CONFIGS
from tupe.models.tupe import TupeLanguageModelEncoder, as_namespace


def meta_model(name: str, vocab_size: int, max_positions: int, **fields: object) -> TupeLanguageModelEncoder:
    """The named model, whose parameters have shapes and no memory. `fields` override those of its name."""
    args = as_namespace(CONFIGS[name](max_positions=max_positions, **fields))
    with torch.device("meta"):
        return TupeLanguageModelEncoder(args, _dictionary(vocab_size))


@lru_cache(maxsize=1)
def _dictionary(size: int) -> Dictionary:
    dictionary = Dictionary()
    for index in range(len(dictionary), size):
        dictionary.add_symbol(str(index))
    return dictionary


def count_parameters(name: str, vocab_size: int, max_positions: int, **fields: object) -> tuple[int, int]:
    """Parameters of the position encoding, and of the whole model with its language-model head (`tupe systems`).

    Segments and Linformer's projection are no positions. `fields` override those of the named model.
    """
    layers = fields.pop("encoder_layers", CONFIGS[name].encoder_layers)
    one, two = (_count(meta_model(name, vocab_size, max_positions, encoder_layers=n, **fields)) for n in (1, 2))
    return tuple(first + (layers - 1) * (second - first) for first, second in zip(one, two))  # layers are alike


def _count(model: TupeLanguageModelEncoder) -> tuple[int, int]:
    encoder = model.sentence_encoder
    modules = [encoder.position_bias, encoder.input_positions, *(layer.self_attn.relative for layer in encoder.layers)]
    position = sum(p.numel() for module in modules if module is not None for p in module.parameters())
    return position, sum(p.numel() for p in model.parameters())
