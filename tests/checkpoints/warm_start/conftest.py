"""Small encoders with random parameters."""

import pytest
import torch

from tests.samples import FIELDS
from tupe.checkpoints.warm_start.start import build
from tupe.models.config import named
from tupe.models.tupe import as_namespace

SYMBOLS = 30


@pytest.fixture
def make():
    """`make("bert_a_tiny", relative="shaw")`: two layers of two heads, width 16, 12 positions, noise."""

    def make(name="bert_a_tiny", std=0.3, symbols=SYMBOLS, **fields):
        config = named(name, **{**FIELDS, "encoder_layers": 2, "max_positions": 12, **fields})
        encoder = build(as_namespace(config), symbols).eval()
        encoder.args._name = encoder.shown_as = name
        generator = torch.Generator().manual_seed(7)
        for parameter in encoder.parameters():
            parameter.data.add_(std * torch.randn(parameter.shape, generator=generator))
        return encoder

    return make


@pytest.fixture
def tokens():
    """Two sequences, the second a pair with padding."""
    generator = torch.Generator().manual_seed(5)
    tokens = torch.randint(4, SYMBOLS - 1, (2, 12), generator=generator)
    tokens[:, 0] = 0
    tokens[1, 4:6] = 2
    tokens[1, 9], tokens[1, 10:] = 2, 1
    return tokens
