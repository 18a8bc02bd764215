"""Encoders of small models with random parameters."""

import pytest
import torch

from tupe.models.config import named
from tupe.models.summary import dictionary_of_size
from tupe.models.tupe import TupeLanguageModelEncoder, as_namespace

SMALL = {"encoder_layers": 2, "encoder_embed_dim": 24, "encoder_ffn_embed_dim": 48, "encoder_attention_heads": 3}


@pytest.fixture
def made():
    """`made("tupe_tiny", **fields)` is an encoder as `open_encoder` returns it."""

    def made(name, shown_as="model", **fields):
        torch.manual_seed(0)
        args = as_namespace(named(name, **{**SMALL, "max_positions": 20, **fields}))
        encoder = TupeLanguageModelEncoder(args, dictionary_of_size(4))
        for parameter in encoder.parameters():
            torch.nn.init.normal_(parameter, std=0.3)
        encoder.shown_as = shown_as
        return encoder.eval()

    return made
