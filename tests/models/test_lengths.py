"""Inputs longer than in training: a window that ends the attention."""

import pytest
import torch

from tests.models.small import small_batch

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


@pytest.mark.parametrize("name", ("tupe_tiny", "rope_tiny", "diet_rel_tiny"))
@pytest.mark.parametrize("unpad", ("always", "never"))
def test_a_window_ends_with_each_sequence(build, tokens, name, unpad):
    model = build(name, attention_window=4, unpad=unpad)
    together = features(model, tokens, num_tokens=sum(LENGTHS))
    for row, length in enumerate(LENGTHS):
        torch.testing.assert_close(together[row, :length], features(model, tokens[row : row + 1, :length])[0])
