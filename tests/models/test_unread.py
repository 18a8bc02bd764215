"""A field that changes nothing in the model is said, and no field that does."""

import pytest

from tupe.models import unread
from tupe.models.config import CONFIGS
from tupe.models.summary import meta_model


@pytest.fixture
def warned(caplog):
    def warned(name, **fields):
        unread._warn_once.cache_clear()
        caplog.clear()
        meta_model(name, 100, 32, **fields)
        return [record.getMessage().partition(" has no effect: ")[0] for record in caplog.records]

    return warned


@pytest.mark.parametrize(
    ("name", "fields", "said"),
    [
        ("tupe_a_tiny", {"relative_buckets": 16, "relative": "clipped"}, ["relative_buckets=16"]),
        ("tupe_a_tiny", {"relative_max_distance": 8}, ["relative_max_distance=8"]),
        ("t5_tiny", {"relative_max_distance": 8, "relative_buckets": 16}, []),
        ("bert_a_tiny", {"no_untied_layer_norm": True, "fire_width": 3},
         ["fire_width=3", "no_untied_layer_norm=True"]),
        ("alibi_tiny", {"fire_length": 3.0, "relative_sides": "learned"}, ["fire_length=3.0"]),
        ("electra_rope_tiny", {"rotary_base": 500.0}, []),
        ("electra_tupe_tiny", {"rotary_base": 500.0, "position_rank": 3}, ["position_rank=3", "rotary_base=500.0"]),
    ],
)  # fmt: skip
def test_fields_without_a_reader(name, fields, said, warned):
    assert warned(name, **fields) == said


def test_no_named_model_has_one(warned):
    assert not [name for name in CONFIGS if name.endswith("_tiny") and warned(name)]


def test_a_model_is_warned_of_once(warned, caplog):
    assert warned("tupe_a_tiny", position_rank=3)
    caplog.clear()
    meta_model("tupe_a_tiny", 100, 32, position_rank=3)
    assert not caplog.records
