"""The configuration's choices become terms: each name of `CHOICES`, who shares them, what a registered class gets."""

import pytest
from torch import nn

from tupe.encoder.build import build_position_bias
from tupe.models.config import named
from tupe.models.tupe import as_namespace
from tupe.position import FireRelative, registry
from tupe.systems import CHOICES, IN_LAYER


def built(bidirectional=True, **fields):
    args = as_namespace(named("tupe_tiny"))
    args.max_positions = 16
    vars(args).update(fields)
    return build_position_bias(args, bidirectional)


@pytest.mark.parametrize("name", CHOICES["absolute"])
def test_every_absolute_choice_is_a_term_or_added_to_the_words(name):
    assert (built(absolute=name, reset="none").absolute is None) == (name in ("none", "input"))


@pytest.mark.parametrize("name", CHOICES["relative"])
def test_every_relative_choice_is_a_term_or_in_the_layer(name):
    assert (built(relative=name).relative is None) == (name == "none" or name in IN_LAYER)


@pytest.mark.parametrize(("sharing", "heads"), [("layer", 4), ("head", 3), ("none", 12)])
def test_num_position_heads(sharing, heads):
    """Of three layers with four heads each."""
    position = built(sharing=sharing, encoder_layers=3)
    assert {getattr(position, part).num_heads for part in ("absolute", "relative", "reset")} == {heads}


class Asking(nn.Module):
    def __init__(self, num_heads, max_positions, *, size=3, layer_heads=0, bidirectional=True):
        super().__init__()
        self.given = num_heads, max_positions, size, layer_heads, bidirectional


def test_a_registered_term_takes_what_it_names(monkeypatch):
    monkeypatch.setitem(registry.REGISTRY, "relative", dict(registry.REGISTRY["relative"]))
    registry.register_relative("asking", size="rows")(Asking)
    position = built(False, relative="asking", size=7, sharing="none")
    assert position.relative.given == (4 * 4, 16, 7, 4, False)


def test_the_function_of_fire_is_not_drawn_as_berts_layers(build):
    """fairseq draws every linear layer of a model with deviation 0.02, of which the function would be flat."""
    bias = build("fire_tiny", max_positions=128).encoder.sentence_encoder.position_bias
    fresh = FireRelative(3, 128)
    assert bias.relative.hidden_weight.std() > 0.3 < fresh.hidden_weight.std()
    assert fresh.out_weight.abs().max() > 0.15
    assert bias.relative.length.item() * FireRelative.unit == 128
