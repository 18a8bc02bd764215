"""The encoder around its layers: the terms once a batch, segments, parts of a bias, the window."""

import logging
from unittest.mock import patch

import pytest
import torch

from tests.models.small import small_batch
from tupe.encoder import encoder as module
from tupe.encoder.encoder import ALL_SLOTS
from tupe.position import PositionBias, SegmentAttention, Terms
from tupe.systems import SYSTEMS

LENGTHS = (13, 8, 2)


def features(model, tokens, **given):
    with torch.no_grad():
        return model(tokens, features_only=True, **given)[0]


def attended(model, tokens):
    """What each layer's attention takes, of a padded batch."""
    encoder = model.encoder.sentence_encoder
    terms = encoder.terms(tokens.shape[1], encoder.segments(tokens))
    return [group for (group,) in encoder.attention_inputs(terms, ALL_SLOTS, encoder.embed_tokens(tokens))]


def counted(owner, method):
    return patch.object(owner, method, autospec=True, side_effect=getattr(owner, method))


@pytest.mark.parametrize("sharing", ["none", "layer", "head"])
def test_terms_are_computed_once_a_batch_and_once_in_evaluation(build, pairs, sharing):
    model = build("diet_abs_tiny", sharing=sharing, encoder_layers=5)
    with counted(PositionBias, "compute") as compute, counted(SegmentAttention, "forward") as segments:
        model.train()(pairs)
        assert compute.call_count == segments.call_count == 1
        model.eval()
        for length in (13, 13, 8):
            features(model, pairs[:, :length])
        assert compute.call_count == 2
    layers = attended(model, pairs)
    assert all(layer.bias is layers[0].bias for layer in layers) == (sharing == "layer")


@torch.no_grad()
def test_single_sentences_have_one_bias_for_the_batch(build, tokens, pairs):
    model = build("diet_abs_tiny")
    encoder = model.encoder.sentence_encoder
    first = encoder.segment_attention.weight[0, :, :1, :1]  # (H, 1, 1)
    torch.testing.assert_close(attended(model, tokens)[0].bias, encoder.position_bias(13).bias + first)
    assert attended(model, pairs)[0].bias.shape == (3, 3, 13, 13)


@pytest.mark.parametrize("segment", ["input", "per_head"])
def test_checkpoint_without_segments_is_the_same_function_at_first(build, pairs, segment, caplog):
    """DIET pre-trains without and fine-tunes with: the new parameters are said, start at zero, and learn."""
    pretrained, model = build("diet_abs_tiny", segment="none"), build("diet_abs_tiny", segment=segment)
    state = pretrained.state_dict()
    with caplog.at_level(logging.INFO, logger="tupe.position.segment"):
        model.load_state_dict(pretrained.state_dict())
    (said,) = [record.getMessage() for record in caplog.records]
    name = {"input": "input_segments", "per_head": "segment_attention"}[segment]
    assert f"encoder.sentence_encoder.{name}.weight" in said and "starts at zero" in said
    torch.testing.assert_close(model(pairs)[0], pretrained(pairs)[0])
    model(pairs)[0].square().sum().backward()
    assert model.get_parameter(f"encoder.sentence_encoder.{name}.weight").grad.abs().max() > 0
    del state["encoder.sentence_encoder.position_bias.absolute.key"]  # nothing else may lack
    with pytest.raises(RuntimeError, match=r"Missing key.*absolute.key"):
        model.load_state_dict(state)


PARTS = [
    ("tupe_r_tiny", {"reset": "release", "sharing": "none"}),
    ("tupe_a_tiny", {"segment": "per_head", "sharing": "head"}),
    ("diet_abs_tiny", {"sharing": "none", "unpad": "always"}),
    ("bert_ad_tiny", {"relative": "bucketed"}),
    ("tupe_r_tiny", {"absolute": "free", "segment": "per_head"}),
    ("tupe_a_rope_tiny", {"unpad": "always"}),
    ("bialibi_tiny", {"sharing": "none"}),
]
WHOLE = [
    ("shaw_tiny", {"absolute": "untied", "segment": "per_head"}),
    ("deberta_tiny", {"absolute": "untied", "sharing": "none"}),
    ("diet_abs_lin_tiny", {}),
    ("tupe_r_tiny", {"attention_window": 4}),
]


def outputs(model, tokens):
    """Logits of the tokens, and all gradients."""
    out = model(tokens)[0][tokens.ne(1)]
    return [out, *torch.autograd.grad(out.square().sum(), list(model.parameters()))]


@pytest.mark.parametrize(("name", "fields"), PARTS + WHOLE)
def test_attention_that_takes_parts_is_the_same_model(build, pairs, name, fields, monkeypatch):
    """Except where layers add to the bias, where its keys are not positions, and under a window."""
    model = build(name, **fields).double()
    whole = outputs(model, pairs)
    monkeypatch.setattr(module, "takes_parts", lambda *_: True)
    assert isinstance(attended(model, pairs)[0].bias, Terms) == ((name, fields) in PARTS)
    for found, wanted in zip(outputs(model, pairs), whole):
        torch.testing.assert_close(found, wanted)


def test_kernels_get_the_segment_of_every_token(build, tokens, monkeypatch):
    """Also where one cell would do, since no sequence has a second segment."""
    monkeypatch.setattr(module, "takes_parts", lambda *_: True)
    terms = attended(build("diet_abs_tiny"), tokens)[0].bias
    assert terms.segments.shape == tokens.shape and not terms.segments.any()


@pytest.mark.parametrize("unpad", ["always", "never"])
def test_a_window_ends_with_each_sequence(build, tokens, unpad):
    model = build("tupe_tiny", attention_window=4, unpad=unpad)
    together = features(model, tokens, num_tokens=sum(LENGTHS))
    for row, length in enumerate(LENGTHS):
        torch.testing.assert_close(together[row, :length], features(model, tokens[row : row + 1, :length])[0])


@pytest.mark.parametrize("system", SYSTEMS)
def test_every_system_runs_in_modernberts_block(build, dictionary, system):
    """Also at padding, where a query sees only padding in its window."""
    assert features(build(f"{system}_modern_tiny", max_positions=80), small_batch(dictionary, (80, 5))).isfinite().all()
