"""A model is opened with other fields of its position encoding than those of training."""

import pytest
import torch

from tests.samples import write_checkpoint
from tupe.analysis.checkpoint import open_encoder
from tupe.util import UserError


def test_fields_in_place_of_those_of_training(tmp_path):
    path = write_checkpoint(tmp_path / "model.pt", tmp_path, name="t5_tiny")
    plain, other = open_encoder(path), open_encoder(path, overrides={"relative_max_distance": "40"})
    assert (plain.args.relative_max_distance, other.args.relative_max_distance) == (128, 40)
    assert plain.trained_length == other.trained_length == 32
    bias = [encoder.sentence_encoder.position_bias(60).bias for encoder in (plain, other)]
    torch.testing.assert_close(bias[1][..., :8, :8], bias[0][..., :8, :8])
    assert not bias[1].equal(bias[0])
    with pytest.raises(UserError, match="The encoder is open"):
        open_encoder(plain, overrides={"relative_max_distance": "40"})


def test_where_fire_ends(tmp_path):
    """What a parameter was trained to is replaced: distances beyond the new end share a value."""
    path = write_checkpoint(tmp_path / "model.pt", tmp_path, name="fire_tiny")
    plain, other = (
        open_encoder(path, overrides=fields).sentence_encoder.position_bias.relative.by_distance(0, 90)
        for fields in ({}, {"fire_length": 64})
    )
    assert plain[:, 32:].std(1).max() < 1e-6 < other[:, 32:64].std(1).min()
    assert other[:, 64:].std(1).max() < 1e-6
