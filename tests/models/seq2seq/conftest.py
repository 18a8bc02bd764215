"""Small encoder-decoders with parameters large enough that a wrong term shows, and sentences for them."""

from types import SimpleNamespace

import pytest
import torch

from tests.contract.fixtures.cases import STACKS, TRANSLATIONS
from tests.samples import WORDS, dictionary_of
from tupe.models.config import named
from tupe.models.seq2seq.model import Seq2SeqModel

#: Of the net, and combinations whose steps are others.
CASES = {
    **TRANSLATIONS,
    "shaw with low_rank": ("shaw", {"cross_position": "low_rank"}),
    "diet_rel with diagonal": ("diet_rel", {"cross_position": "diagonal"}),
    "rope, untied, not shared": ("tupe_a", {"rotary_dims": -1, "sharing": "none"}),
}


@pytest.fixture(scope="session")
def dictionary():
    return dictionary_of(*WORDS)


@pytest.fixture(scope="session")
def task(dictionary):
    return SimpleNamespace(
        cfg=SimpleNamespace(left_pad_source=False),
        source_dictionary=dictionary,
        target_dictionary=dictionary,
        max_positions=lambda: (16, 12),
    )


@pytest.fixture(scope="session")
def build(task):
    """`build("t5", dropout=0.0)`: a small model in evaluation mode, from a fixed seed."""

    def build(system, seed=0, **fields):
        torch.manual_seed(seed)
        fields = {**STACKS, "relative_max_distance": 3 if system == "shaw" else 128, **fields}
        model = Seq2SeqModel.build_model(named(f"seq2seq_{system}_tiny", **fields), task)
        for name, parameter in model.named_parameters():
            if parameter.ndim > 1:
                torch.nn.init.normal_(parameter, std=0.3)
            elif "layer_norm" in name:
                torch.nn.init.normal_(parameter, std=0.5)
        return model.eval()

    return build


@pytest.fixture
def source(dictionary):
    """Three sentences of 9, 6 and 2 tokens, padded on the right."""
    generator = torch.Generator().manual_seed(1)
    tokens = torch.randint(dictionary.nspecial, len(dictionary), (3, 9), generator=generator)
    for row, length in zip(tokens, (9, 6, 2)):
        row[length - 1] = dictionary.eos()
        row[length:] = dictionary.pad()
    return tokens


@pytest.fixture
def previous(dictionary):
    """What the decoder gets: `</s>` and seven tokens."""
    generator = torch.Generator().manual_seed(2)
    tokens = torch.randint(dictionary.nspecial, len(dictionary), (3, 8), generator=generator)
    tokens[:, 0] = dictionary.eos()
    return tokens
