"""Logits in parts that sum to the whole, and their ranks, of models with random parameters."""

import pytest
import torch

from tupe.analysis.logits import first_layer_correlations, layer_logits, logit_ranks
from tupe.position import Terms
from tupe.systems import SYSTEMS

#: Their content is multiplied with vectors of distances in each layer, or their keys mix positions.
OTHERS = ("shaw", "deberta", "pope", "linformer", "diet_abs_lin")
FOUR = ["word to word", "word to position", "position to word", "position to position"]


@pytest.fixture
def tokens():
    """Sequences without padding. The last two have neighboring `</s>` (2), so they are pairs of segments."""
    return torch.randint(2, 4, (3, 9), generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("before", [False, True])
@pytest.mark.parametrize(
    ("name", "fields"),
    [
        *((f"{system}_tiny", {}) for system in SYSTEMS if system not in OTHERS),
        ("bert_a_tiny", {"embedding_dim": 8}),  # as ELECTRA-small's: the projection is shared out too
    ],
)
def test_the_parts_sum_to_the_logits(name, fields, before, made, tokens):
    encoder = made(name, encoder_normalize_before=before, attention_backend="flex", **fields)
    parts = first_layer_correlations(encoder, tokens)
    torch.testing.assert_close(sum(parts.values()), layer_logits(encoder, tokens)[0].mean(0))
    assert all(part.abs().max() > 1e-3 for part in parts.values())
    if name.startswith("bert_a"):
        assert list(parts) == FOUR


def test_positions_alone_do_not_depend_on_the_words(made, tokens):
    encoder = made("bert_a_tiny", no_layernorm_embedding=True)
    one, other = (first_layer_correlations(encoder, words) for words in (tokens, tokens.flip(1)))
    torch.testing.assert_close(one[FOUR[3]], other[FOUR[3]])
    assert not torch.allclose(one[FOUR[0]], other[FOUR[0]])


def test_logits_are_those_that_attention_computes(made, tokens):
    """Of the second layer: the weights of its attention, from the model's own features, give its output."""
    encoder = made("tupe_tiny")
    second = layer_logits(encoder, tokens)[1]
    _, states = encoder.sentence_encoder(tokens, num_tokens=tokens.numel(), return_all_hiddens=True)
    layer = encoder.sentence_encoder.layers[1]
    value = layer.self_attn.heads(layer.self_attn.project(states[1]), Terms(), None)[2]
    out = layer.self_attn.out_proj((second.softmax(-1) @ value).transpose(1, 2).flatten(2))
    x = layer.self_attn_layer_norm(states[1] + out)
    torch.testing.assert_close(layer.final_layer_norm(x + layer.feed_forward(x)), states[2])


def test_ranks_of_the_theorem(made, tokens):
    """DIET, theorem 1: at most d_h with positions at the input, d_h + d_p with a low-rank term; d_h is 2 here."""
    fields = {"encoder_attention_heads": 3, "encoder_embed_dim": 6}
    bert, term = logit_ranks(made("bert_a_tiny", **fields), tokens)
    assert term is None
    assert bert.max() <= 2
    small = made("bert_a_tiny", **fields)
    for parameter in small.sentence_encoder.layers[0].self_attn.qkv_proj.parameters():
        parameter.data[::2] *= 1e-2  # singular values of 1e-4 of the largest count
    assert logit_ranks(small, tokens)[0][0].tolist() == [2, 2, 2]
    diet, term = logit_ranks(made("diet_abs_tiny", **fields, position_rank=3, segment="none"), tokens)
    assert term.tolist() == [3, 3, 3]
    assert diet[0].min() > 3
    with pytest.raises(AssertionError, match="infinite"):
        logit_ranks(made("tupe_tiny", attention_window=4), tokens)
