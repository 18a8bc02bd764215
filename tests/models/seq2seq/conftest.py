"""Small encoder-decoders with parameters large enough that a wrong term shows, and sentences for them."""

from types import SimpleNamespace

import pytest
import torch

from tests.samples import WORDS, dictionary_of
from tupe.models.config import named
from tupe.models.seq2seq.model import Seq2SeqModel
from tupe.systems import SEQ2SEQ_SYSTEMS

SMALL = {
    "encoder_layers": 2,
    "decoder_layers": 3,
    "encoder_embed_dim": 24,
    "encoder_ffn_embed_dim": 32,
    "encoder_attention_heads": 3,
    "position_rank": 5,
}
CROSS = {f"{name} with {cross}": (name, {"cross_position": cross})
         for name, cross in [("sinusoidal", "diagonal"), ("tupe_r", "untied"), ("diet_rel", "untied"),
                             ("diet_abs", "low_rank"), ("shaw", "low_rank"), ("diet_rel", "diagonal")]}  # fmt: skip
CASES = {
    **{name: (name, {}) for name in SEQ2SEQ_SYSTEMS},
    **CROSS,
    "tupe_r of each layer, pre-norm": ("tupe_r", {"sharing": "none", "encoder_normalize_before": True}),
    "t5 shared by heads": ("t5", {"sharing": "head"}),
    "shaw of keys alone, with low rank": ("shaw", {"shaw_values": False, "absolute": "low_rank"}),
    "untied across, with biases and no layer norm": (
        "diet_rel",
        {"cross_position": "untied", "untied_projection_bias": True, "no_untied_layer_norm": True},
    ),
    "alibi": ("none", {"relative": "alibi"}),
    "alibi learned of each layer": ("none", {"relative": "alibi", "relative_sides": "learned", "sharing": "none"}),
    "kerple": ("none", {"relative": "kerple"}),
    "rope of half the columns, and T5": ("t5", {"rotary_dims": 4}),
    "rope, untied, of each layer": ("tupe_a", {"rotary_dims": -1, "sharing": "none"}),
    "fire, untied": ("tupe_a", {"relative": "fire"}),
    "clipped": ("none", {"relative": "clipped", "relative_max_distance": 3}),
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
        fields = {
            **SMALL,
            "relative_max_distance": 3 if system == "shaw" else 128,
            "share_all_embeddings": True,
            **fields,
        }
        model = Seq2SeqModel.build_model(named(f"seq2seq_{system}_tiny", **fields), task)
        for name, parameter in model.named_parameters():
            if parameter.ndim > 1:
                torch.nn.init.normal_(parameter, std=0.3)
            elif "layer_norm" in name:
                torch.nn.init.normal_(parameter, std=0.5)
        return model.eval()

    return build


@pytest.fixture(params=CASES)
def model(request, build):
    """A model of each system, and of some combinations."""
    system, fields = CASES[request.param]
    return build(system, **fields)


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
