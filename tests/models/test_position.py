"""The configuration's choices become terms: each name of `CHOICES`, and what a registered class asks for."""

import pytest
import torch
from torch import nn

from tupe.models.config import named
from tupe.models.position import build_absolute, build_relative
from tupe.models.tupe import as_namespace
from tupe.position import FireRelative, registry
from tupe.systems import CHOICES, IN_LAYER


@pytest.fixture
def args():
    args = as_namespace(named("tupe_tiny"))
    args.max_positions = 16
    return args


@pytest.mark.parametrize("name", CHOICES["absolute"])
def test_every_absolute_choice_is_a_term_or_added_to_the_words(name, args):
    args.absolute = name
    assert (build_absolute(args) is None) == (name in ("none", "input"))


@pytest.mark.parametrize("name", CHOICES["relative"])
def test_every_relative_choice_is_a_term_or_in_the_layer(name, args):
    args.relative = name
    assert (build_relative(args) is None) == (name == "none" or name in IN_LAYER)


@pytest.mark.parametrize(("reset", "same"), [("none", False), ("paper", True)])
@torch.no_grad()
def test_symmetric_slopes_and_a_reset_see_no_direction(reset, same, build):
    """`[CLS]` of a text and of its reverse are equal with the reset, though not without it."""
    model = build("alibi_tiny", reset=reset, segment="none").double()
    text = torch.tensor([[0, 5, 9, 30, 12, 7, 22]])
    reverse = torch.cat([text[:, :1], text[:, 1:].flip(1)], 1)
    one, other = (model(tokens, features_only=True)[0][:, 0] for tokens in (text, reverse))
    assert torch.allclose(one, other, rtol=0, atol=1e-9) == same


def test_the_function_of_fire_is_not_drawn_as_berts_layers(build):
    """fairseq draws every linear layer of a model with deviation 0.02, of which the function would be flat."""
    bias = build("fire_tiny", max_positions=128).encoder.sentence_encoder.position_bias
    fresh = FireRelative(3, 128)
    assert bias.relative.hidden_weight.std() > 0.3 < fresh.hidden_weight.std()
    assert fresh.out_weight.abs().max() > 0.15
    assert bias.relative.length.item() * FireRelative.unit == 128


class Asking(nn.Module):
    def __init__(self, num_heads, max_positions, *, size=3, layer_heads=0, bidirectional=True):
        super().__init__()
        self.given = num_heads, max_positions, size, layer_heads, bidirectional


def test_a_registered_term_takes_what_it_names(monkeypatch, args):
    monkeypatch.setattr(registry, "REGISTRY", {"absolute": {}, "relative": {}})
    monkeypatch.setattr("tupe.models.position.REGISTRY", registry.REGISTRY)
    registry.register_relative("asking", size="rows")(Asking)
    args.relative, args.size, args.sharing = "asking", 7, "none"
    assert build_relative(args, bidirectional=False).given == (4 * 4, 16, 7, 4, False)
