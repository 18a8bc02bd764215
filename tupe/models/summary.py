"""Sizes of the named models, without allocating them."""

from __future__ import annotations

import torch
from fairseq.data import Dictionary

from tupe.models.config import CONFIGS
from tupe.models.tupe import TupeLanguageModelEncoder, as_namespace


def count_parameters(name: str, vocab_size: int, max_positions: int) -> tuple[int, int]:
    """Parameters of the position encoding, and of the whole model with its language-model head (`tupe systems`)."""
    dictionary = Dictionary()
    for index in range(len(dictionary), vocab_size):
        dictionary.add_symbol(str(index))
    args = as_namespace(CONFIGS[name](max_positions=max_positions))
    with torch.device("meta"):
        model = TupeLanguageModelEncoder(args, dictionary)
    encoder = model.sentence_encoder
    modules = [encoder.position_bias, *([encoder.input_positions] if encoder.input_positions else [])]
    position = sum(p.numel() for module in modules for p in module.parameters())
    return position, sum(p.numel() for p in model.parameters())
