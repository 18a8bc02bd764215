"""Logits of positions in each layer, where all words are the same, and the heads of the layers that agree."""

import pytest
import torch

from tupe.checkpoints.warm_start.logits import agreeing_heads, centred, closest, logits_of, positions_of
from tupe.position import Terms


@pytest.mark.parametrize("before", [False, True], ids=["post-norm", "pre-norm"])
def test_of_a_model_whose_words_are_all_the_same(before, make):
    """There, the logits of each layer are those of positions alone, up to a constant a row and `[CLS]`'s own."""
    old = make(encoder_normalize_before=before)
    inner = old.sentence_encoder
    with torch.no_grad():
        inner.embed_tokens.weight.copy_(inner.embed_tokens.weight[:1].expand_as(inner.embed_tokens.weight).clone())
    tokens = torch.randint(4, 20, (3, 12))
    tokens[:, 0] = 0
    found = logits_of(old, positions_of(old, tokens))
    states = inner(tokens, return_all_hiddens=True)[1]
    for layer, (block, x) in enumerate(zip(inner.layers, states)):
        x = block.self_attn_layer_norm(x) if before else x
        query, key, _ = block.self_attn.heads(block.self_attn.project(x), Terms(), None)
        wanted = (query @ key.transpose(2, 3) * block.self_attn.scale)[0]
        if layer == 0:
            assert (positions_of(old, tokens).hidden[0, 0] != 0).any()
        wanted = centred(wanted[:, 1:, 1:])
        torch.testing.assert_close(centred(found[layer][:, 1:, 1:]), wanted, rtol=1e-4, atol=1e-4)


def test_heads_that_agree():
    generator = torch.Generator().manual_seed(3)
    base = torch.randn(4, 9, 9, generator=generator)
    orders = [torch.randperm(4, generator=generator) for _ in range(3)]
    layers = torch.stack([base[order] + 0.3 * torch.randn(4, 9, 9, generator=generator) for order in orders])
    found = agreeing_heads(layers)
    places = torch.stack([order[f] for order, f in zip(orders, found)])
    assert (places == places[0]).all()


def test_closest():
    generator = torch.Generator().manual_seed(1)
    for size in (1, 2, 5, 12):
        places, order = torch.randn(size, 30, generator=generator), torch.randperm(size, generator=generator)
        values = places[order] + 0.1 * torch.randn(size, 30, generator=generator)
        assert torch.equal(order[closest(places, values)], torch.arange(size))
