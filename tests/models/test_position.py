"""The configuration's choices become terms: each name of `CHOICES`, and what a registered class asks for."""

import pytest
from torch import nn

from tupe.errors import UserError
from tupe.models.config import CONFIGS
from tupe.models.position import build_absolute, build_relative
from tupe.models.tupe import as_namespace
from tupe.position import registry
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
