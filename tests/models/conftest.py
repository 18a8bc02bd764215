from types import SimpleNamespace

import pytest
import torch
from fairseq.data import Dictionary

from tupe.models.config import CONFIGS
from tupe.models.electra import ElectraModel
from tupe.models.tupe import TupeModel
from tupe.systems import ELECTRA_NAMES

WORDS = 40


@pytest.fixture(scope="session")
def dictionary():
    dictionary = Dictionary()
    for index in range(WORDS):
        dictionary.add_symbol(f"word{index}")
    dictionary.add_symbol("<mask>")
    return dictionary


@pytest.fixture
def build(dictionary):
    """`build("tupe_tiny", dropout=0.0)`: a named model of two layers, small, in evaluation mode, from a fixed seed."""

    def build(name, max_positions=24, **fields):
        torch.manual_seed(0)
        small = {
            "encoder_layers": 2,
            "encoder_embed_dim": 24,
            "encoder_ffn_embed_dim": 48,
            "encoder_attention_heads": 3,
        }
        task = SimpleNamespace(source_dictionary=dictionary, max_positions=lambda: max_positions)
        model_class = ElectraModel if name in ELECTRA_NAMES else TupeModel
        if name in ELECTRA_NAMES:
            small["generator_size"] = 2 / 3  # two heads of three
        model = model_class.build_model(CONFIGS[name](**{**small, **fields}), task)
        for parameter in model.parameters():
            if parameter.ndim > 1:  # far from the tiny initial values, so that a wrong term shows
                torch.nn.init.normal_(parameter, std=0.3)
        return model.eval()

    return build


@pytest.fixture
def tokens(dictionary):
    """Three sequences of 13, 8 and 2 tokens, `<s> ... </s>`, padded on the right."""
    generator = torch.Generator().manual_seed(1)
    tokens = torch.randint(dictionary.nspecial, WORDS, (3, 13), generator=generator)
    tokens[:, 0] = dictionary.bos()
    for row, length in zip(tokens, (13, 8, 2)):
        row[length - 1] = dictionary.eos()
        row[length:] = dictionary.pad()
    return tokens


@pytest.fixture
def pairs(tokens):
    """`tokens` with the first two as pairs, `<s> a </s> </s> b </s>`; the third is a single sentence."""
    tokens = tokens.clone()
    tokens[0, 5:7] = tokens[1, 3:5] = tokens[0, 12]
    return tokens
