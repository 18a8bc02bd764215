"""Inputs longer than in training: a window that ends the attention, and queries that grow with the logarithm of n."""

import math

import pytest
import torch

from tests.models.small import small_batch
from tupe.errors import UserError
from tupe.models.unpadded import Group

SYSTEMS = ("tupe_tiny", "alibi_tiny", "rope_tiny", "shaw_tiny", "deberta_tiny", "diet_rel_tiny", "bert_ad_tiny")
LENGTHS = (13, 8, 2)


def features(model, tokens, **given):
    with torch.no_grad():
        return model(tokens, features_only=True, **given)[0]


@pytest.mark.parametrize("name", SYSTEMS)
def test_a_window_as_wide_as_the_input_is_none(build, tokens, name):
    plain, wide, narrow = (features(build(name, attention_window=reach), tokens) for reach in (0, 12, 3))
    torch.testing.assert_close(wide[0], plain[0])
    assert (narrow[0] - plain[0]).abs().max() > 1e-3
    torch.testing.assert_close(narrow[2, :2], plain[2, :2])  # of two tokens


@pytest.mark.parametrize("name", SYSTEMS)
def test_a_window_ends_the_attention(build, dictionary, name):
    """Of one layer, that of `[CLS]` aside: a token beyond the window changes nothing, one within does, nor `[CLS]`."""
    model = build(name, attention_window=4, encoder_layers=1)
    tokens = small_batch(dictionary, (20,))
    other = tokens.clone()
    other[0, 15] = 4 + (tokens[0, 15] - 3) % 40
    changed = (features(model, tokens) - features(model, other)).abs().amax(-1)[0] > 1e-5
    assert changed.nonzero().flatten().tolist() == [0, *range(11, 20)]
    other = tokens.clone()
    other[0, 0] = 5
    assert ((features(model, tokens) - features(model, other)).abs().amax(-1) > 1e-5).all()


@pytest.mark.parametrize("name", SYSTEMS)
def test_at_the_length_of_training_queries_stay(build, dictionary, name):
    model, grown = build(name), build(name, log_length=9)
    same, longer = small_batch(dictionary, (9,)), small_batch(dictionary, (20,))
    torch.testing.assert_close(features(grown, same), features(model, same))
    assert (features(grown, longer) - features(model, longer)).abs().max() > 1e-3


@pytest.mark.parametrize("name", ("tupe_tiny", "rope_tiny", "diet_rel_tiny"))
@pytest.mark.parametrize("unpad", ("always", "never"))
def test_queries_grow_with_the_tokens_of_their_own_sequence(build, tokens, name, unpad):
    model = build(name, log_length=5, attention_window=4, unpad=unpad)
    together = features(model, tokens, num_tokens=sum(LENGTHS))
    for row, length in enumerate(LENGTHS):
        torch.testing.assert_close(together[row, :length], features(model, tokens[row : row + 1, :length])[0])


def test_the_factor(build, dictionary):
    """One layer by itself: its queries are multiplied, the bias is not."""
    model = build("tupe_tiny", log_length=4, encoder_layers=1).encoder.sentence_encoder
    same = build("tupe_tiny", encoder_layers=1).encoder.sentence_encoder
    for one in (model, same):
        for theta in one.position_bias.reset.parameters():
            torch.nn.init.constant_(theta, 1.0)
    attention = same.layers[0].self_attn
    with torch.no_grad():
        factor = math.log(16) / math.log(4)
        attention.qkv_proj.weight[:24] *= factor
        attention.qkv_proj.bias[:24] *= factor
    tokens = small_batch(dictionary, (16,))
    torch.testing.assert_close(model(tokens)[0], same(tokens)[0])


def test_entropy_stays_near_that_of_the_length_of_training(build):
    """What the logarithm is for: normal logits spread over more keys."""
    encoder = build("tupe_tiny", log_length=32).encoder.sentence_encoder
    torch.manual_seed(0)
    logits = 2 * torch.randn(2000, 256, dtype=torch.float64)

    def entropy(length, factor=1.0):
        share = (factor * logits[:, :length]).softmax(-1)
        return -(share * share.log()).sum(-1).mean().item()

    short, long = entropy(32), entropy(256)
    grown = entropy(256, encoder.temperature(Group(None), 256, torch.float64, logits.device).item())
    assert short == pytest.approx(2.13, abs=0.05)
    assert long == pytest.approx(3.80, abs=0.05)
    assert grown == pytest.approx(2.40, abs=0.05)
    exact = encoder.temperature(Group(None), 40, torch.float64, logits.device).item()
    assert exact == pytest.approx(math.log(40) / math.log(32), rel=1e-15)


@pytest.mark.parametrize(
    ("name", "fields", "said"),
    [
        ("tupe_tiny", {"attention_window": -1}, "attention_window is -1: give a number, 0 or more"),
        ("tupe_tiny", {"log_length": 1}, "log_length is 1, of which the logarithm is 0"),
        ("linformer_tiny", {"attention_window": 3}, "Linformer's keys are mixtures of all positions"),
    ],
)
def test_what_cannot_be_is_said(build, name, fields, said):
    with pytest.raises(UserError, match=said):
        build(name, **fields)
