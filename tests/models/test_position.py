"""The configuration's choices become terms: each name of `CHOICES`, and what a registered class asks for."""

from argparse import Namespace

import pytest
import torch
from torch import nn

from tupe.errors import UserError
from tupe.models.config import CONFIGS
from tupe.models.layer import build_self_attention
from tupe.models.position import build_absolute, build_position_bias, build_relative
from tupe.models.tupe import as_namespace
from tupe.position import AlibiRelative, FireRelative, registry
from tupe.systems import CHOICES, IN_LAYER


@pytest.fixture
def args():
    args = as_namespace(CONFIGS["tupe_tiny"]())
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


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"absolute": "none"}, r"a text and its reverse are the same to \[CLS\]: set relative_sides to learned"),
        ({"sharing": "head"}, "cannot share one: set sharing to layer or none"),
        ({"sharing": "head", "encoder_layers": 1}, "cannot share one: set sharing to layer or none"),
        ({"relative_sides": "both"}, "relative_sides is both, but must be one of symmetric, learned"),
    ],
)
def test_alibis_that_cannot_be(fields, said, args):
    """TUPE's untied positions beside symmetric slopes can be."""
    args.relative = "alibi"
    build_position_bias(args)
    with pytest.raises(UserError, match=said):
        build_position_bias(Namespace(**{**vars(args), **fields}))


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"absolute": "untied_cross", "reset": "none"}, "untied_cross would add positions to them: set absolute to"),
        ({"rotary_dims": -1}, "relative=deberta has vectors that meet the queries as they are, not turned"),
        ({"linformer_k": 4}, "Linformer's keys are 4 mixtures"),
        ({"absolute": "none"}, r"the \[CLS\] reset needs a content-free correlation"),
        ({"relative_buckets": 5}, r"relative_buckets\) is 5, but half of DeBERTa's buckets are of one distance"),
        ({"relative_max_distance": 17}, "with 32 buckets a side it must be at least 18"),
    ],
)
def test_debertas_that_cannot_be(fields, said, args):
    """Untied positions with their reset beside its distances can be: four products."""
    args.relative = "deberta"
    assert build_position_bias(args).num_terms == 4
    with pytest.raises(UserError, match=said):
        changed = Namespace(**{**vars(args), **fields})
        build_position_bias(changed)
        build_self_attention(changed, 1)


@pytest.mark.parametrize(("reset", "same"), [("none", False), ("paper", True)])
@torch.no_grad()
def test_symmetric_slopes_and_a_reset_see_no_direction(reset, same, build, monkeypatch):
    """Why they are refused: `[CLS]` of a text and of its reverse are equal, though not without the reset."""
    monkeypatch.setattr(AlibiRelative, "symmetric", property(lambda _: False, lambda *_: None), raising=False)
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
    monkeypatch.setattr(registry, "_read", False)
    monkeypatch.setattr(registry, "REGISTRY", {"absolute": {}, "relative": {}})
    monkeypatch.setattr("tupe.models.position.REGISTRY", registry.REGISTRY)
    with pytest.raises(UserError, match="relative=bucketed is taken: register Asking under another"):
        registry.register_relative("bucketed", size="rows")(Asking)
    registry.register_relative("asking", size="rows")(Asking)
    args.relative, args.size, args.sharing = "asking", 7, "none"
    assert build_relative(args, bidirectional=False).given == (4 * 4, 16, 7, 4, False)
