"""A made BERT-A one of whose heads looks one word back: in other systems it predicts better than without order."""

import math

import pytest
import torch
import torch.nn.functional as F

from tupe.checkpoints.warm_start.carry import permute_heads
from tupe.checkpoints.warm_start.start import build, closeness, target_fields, warm_start, without_order
from tupe.models.config import named
from tupe.models.tupe import as_namespace

WORDS, N, WIDTH, HEADS = 20, 16, 64, 4
SYMBOLS = 4 + WORDS + 1
NEXT = torch.randperm(WORDS, generator=torch.Generator().manual_seed(9))


def sequences(number, seed):
    """Sequences in which a word decides the next, but for one in ten; and where they are masked."""
    generator = torch.Generator().manual_seed(seed)
    words = torch.randint(WORDS, (number, N), generator=generator)
    for i in range(1, N):
        words[:, i] = torch.where(torch.rand(number, generator=generator) < 0.9, NEXT[words[:, i - 1]], words[:, i])
    words += 4
    words[:, 0] = 0
    masked = (torch.rand(words.shape, generator=generator) < 0.15) & words.ne(0)
    return words.masked_fill(masked, SYMBOLS - 1), words, masked


def loss_of(encoder, seed=2):
    """Bits per masked token."""
    text, words, masked = sequences(256, seed)
    with torch.no_grad():
        return float(F.cross_entropy(encoder(text)[0][masked], words[masked])) / math.log(2)


@pytest.fixture(scope="module", params=[False, True], ids=["post-norm", "pre-norm"])
def old(request):
    """BERT-A, taught for some hundred updates, whose first head begins with what it is to find: the word before."""
    fields = {"encoder_layers": 2, "encoder_embed_dim": WIDTH, "encoder_ffn_embed_dim": WIDTH, "max_positions": N}
    config = named(
        "bert_a_tiny",
        **fields,
        encoder_attention_heads=HEADS,
        encoder_normalize_before=request.param,
        dropout=0,
        attention_dropout=0,
    )
    encoder = build(as_namespace(config), SYMBOLS)
    encoder.args._name = encoder.shown_as = "bert_a_tiny"
    generator = torch.Generator().manual_seed(4)
    table = torch.linalg.qr(torch.randn(WIDTH, N, generator=generator))[0].t()
    head = slice(WIDTH // HEADS)
    with torch.no_grad():
        encoder.sentence_encoder.input_positions.weight.copy_(table)
        encoder.sentence_encoder.embed_tokens.weight.mul_(0.1)
        for layer in encoder.sentence_encoder.layers:
            weight = layer.self_attn.qkv_proj.weight
            for i in range(1, N):
                weight[head] += 0.5 * table[i - 1][: WIDTH // HEADS, None] * table[i]
            weight[WIDTH : WIDTH + WIDTH // HEADS] += torch.eye(WIDTH)[head]
    parameters = list(encoder.parameters())
    optimizer = torch.optim.AdamW(parameters, lr=3e-3)
    for update in range(250):
        for group in optimizer.param_groups:
            group["lr"] = 3e-3 * min(1, (update + 1) / 20, (250 - update) / 100)
        text, words, masked = sequences(32, 100 + update)
        loss = F.cross_entropy(encoder.train()(text)[0][masked], words[masked])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    for layer in range(2):  # the layers' heads have nothing in common
        permute_heads(encoder, layer, torch.randperm(HEADS, generator=torch.Generator().manual_seed(40 + layer)))
    return encoder.eval()


@pytest.mark.parametrize(
    "system", ["tupe_a_tie_cls", "tupe_a", "tupe_r", "diet_abs", "t5", "diet_rel", "tupe_a sharing=none"]
)
def test_what_it_predicts(system, old):
    """A warm start keeps most of the effect of order; its features are closer than without order or with new terms."""
    text, (name, *fields) = sequences(384, 3)[0], system.split()
    target, none = target_fields(old, name, fields), without_order(old)
    started, drawn = warm_start(old, target, text), warm_start(old, target)
    assert not started.exact
    assert loss_of(old) + 1 < loss_of(none)
    assert loss_of(started.encoder) < (loss_of(old) + loss_of(none)) / 2 < loss_of(drawn.encoder)
    words = sequences(64, 4)[0][:, 1:].flatten()
    best, *others = (closeness(old, model, words, N) for model in (started.encoder, none, drawn.encoder))
    assert best > max(others)
