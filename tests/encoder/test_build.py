"""The configuration's choices become terms: what a registered class gets."""

from torch import nn

from tupe.encoder.build import build_position_bias
from tupe.models.config import named
from tupe.models.tupe import as_namespace
from tupe.position import FireRelative, registry


class Asking(nn.Module):
    def __init__(self, num_heads, max_positions, *, size=3, layer_heads=0, bidirectional=True):
        super().__init__()
        self.given = num_heads, max_positions, size, layer_heads, bidirectional


def test_a_registered_term_takes_what_it_names(monkeypatch):
    monkeypatch.setitem(registry.REGISTRY, "relative", dict(registry.REGISTRY["relative"]))
    registry.register_relative("asking", size="rows")(Asking)
    args = as_namespace(named("tupe_tiny"))
    vars(args).update(relative="asking", size=7, sharing="none", max_positions=16)
    assert build_position_bias(args, bidirectional=False).relative.given == (4 * 4, 16, 7, 4, False)


def test_the_function_of_fire_is_not_drawn_as_berts_layers(build):
    """fairseq draws every linear layer of a model with deviation 0.02, of which the function would be flat."""
    bias = build("fire_tiny", max_positions=128).encoder.sentence_encoder.position_bias
    fresh = FireRelative(3, 128)
    assert bias.relative.hidden_weight.std() > 0.3 < fresh.hidden_weight.std()
    assert fresh.out_weight.abs().max() > 0.15
    assert bias.relative.length.item() * FireRelative.unit == 128
