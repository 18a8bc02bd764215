"""The logits of positions, the heads of the layers that agree, and fits that reproduce what a term can hold."""

import pytest
import torch

from tupe.checkpoints.warm_start import start
from tupe.checkpoints.warm_start.carry import add_mean_position, position_weights
from tupe.checkpoints.warm_start.fit import agreeing_heads, centered, fit, logits_of
from tupe.checkpoints.warm_start.start import build, target_fields, warm_start, without_order
from tupe.models.config import named
from tupe.models.tupe import as_namespace

N, HEADS, WIDTH = 12, 2, 32
SIZE = {"encoder_layers": 2, "encoder_embed_dim": WIDTH, "encoder_attention_heads": HEADS, "max_positions": N}


def terms(name, **fields):
    return build(as_namespace(named(name, **SIZE, **fields)), 30).sentence_encoder.position_bias


def noise(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def bias_of(term):
    with torch.no_grad():
        return centered(term.compute(N).bias)


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("tupe_a_tie_cls_tiny", {}),
        ("tupe_a_tie_cls_tiny", {"untied_projection_bias": True, "sharing": "none"}),
        ("tupe_a_tie_cls_tiny", {"sharing": "head"}),
        ("diet_abs_tiny", {"position_rank": N}),
        ("diet_abs_tiny", {"position_rank": 3 * N, "sharing": "none"}),
    ],
    ids=str,
)
def test_any_logits_of_the_rank_of_an_absolute_term(name, fields):
    term = terms(name, **fields)
    sets = {"layer": 2, "none": 4, "head": 2}[fields.get("sharing", "layer")]
    logits = centered(noise(sets, N, 5) @ noise(sets, 5, N, seed=1))
    fit(term, logits, noise(N, WIDTH, seed=2))
    torch.testing.assert_close(bias_of(term), logits, rtol=0, atol=1e-4)
    if "low_rank" in str(term):
        assert term.absolute.query.abs().sum((0, 1)).min() > 0  # no rank is zero in both factors


def test_a_table_whose_rows_are_alike():
    term, table = terms("tupe_a_tie_cls_tiny"), noise(1, WIDTH) + 1e-5 * noise(N, WIDTH, seed=2)
    logits = centered(noise(2, N, 5) @ noise(2, 5, N, seed=1))
    fit(term, logits, table)
    torch.testing.assert_close(bias_of(term), logits, rtol=0, atol=1e-2)
    assert 0.05 < float((term.absolute.table.weight.detach() - table).norm() / table.norm()) < 0.2
    own = noise(N, WIDTH, seed=3)
    fit(term, logits, own)
    assert torch.equal(term.absolute.table.weight, own)


@pytest.mark.parametrize("name", ["tupe_a_tiny", "tupe_r_tiny", "diet_abs_tiny"])
def test_a_reset_loses_nothing(name):
    """Up to a constant in each row, and the row of `[CLS]`."""
    term = terms(name, reset="paper", sharing="none", position_rank=N)
    if name == "tupe_r_tiny":
        torch.nn.init.zeros_(term.relative.weight)
    logits = noise(4, N, 5) @ noise(4, 5, N, seed=1)
    fit(term, logits - logits[..., :1], noise(N, WIDTH, seed=2))
    torch.testing.assert_close(bias_of(term)[:, 1:], centered(logits)[:, 1:], rtol=0, atol=1e-3)


@pytest.mark.parametrize("relative", ["bucketed", "clipped", "unbinned"])
def test_values_by_distance(relative):
    source, term = (terms("t5_tiny", relative=relative, relative_max_distance=9) for _ in range(2))
    with torch.no_grad():
        source.relative.weight.copy_(noise(*source.relative.weight.shape))
    logits, own = bias_of(source), bias_of(term)
    fit(term, logits, torch.empty(0))
    torch.testing.assert_close(bias_of(term), logits + own, rtol=0, atol=1e-5)


def test_a_constant_goes_into_the_words(make, tokens):
    torch.testing.assert_close(position_weights(4), torch.tensor([0, 6, 3, 2]) / 11)  # 1/i
    old = make()
    still = without_order(old)
    new = build(target_fields(old, "t5", ["segment=none"]), 30).eval()
    with torch.no_grad():
        table = old.sentence_encoder.input_positions.weight
        still.sentence_encoder.input_positions.weight[1:] = position_weights(len(table)) @ table
        state = new.state_dict()
        for name, tensor in old.state_dict().items():
            if name in state:
                state[name].copy_(tensor)
        new.sentence_encoder.position_bias.relative.weight.zero_()
        add_mean_position(old, new)
        logits = (m.double()(tokens)[0][tokens.ne(1)][:, 1:] for m in (still, new))  # `[CLS]` is never predicted
        one, other = (part.log_softmax(-1) for part in logits)
    torch.testing.assert_close(one, other, rtol=0, atol=5e-6)


#: What imported models have: BERT's segments, separators and eps, ELECTRA's width of the words, an output of its own.
IMPORTED = (
    {"segment": "input", "pair_separators": 1, "layer_norm_eps": 1e-12},
    {"embedding_dim": 24, "untie_weights_roberta": True},
    {"no_layernorm_embedding": True},
)


@pytest.mark.parametrize("own", IMPORTED, ids=str)
@pytest.mark.parametrize("system", ["tupe_r", "diet_rel", "bert_ad sharing=none"])
def test_of_imported_models(own, system, make, tokens):
    old = make(std=0.1, **own)
    text = torch.randint(4, 29, (64, N), generator=torch.Generator().manual_seed(1))
    text[:, 0] = 0
    name, *fields = system.split()
    started = warm_start(old, target_fields(old, name, fields), text)
    for field, value in own.items():
        assert getattr(started.encoder.args, field) == value
    assert started.encoder(tokens)[0].isfinite().all()
    state = started.encoder.state_dict()
    for part in ("fc1.weight", "self_attn.out_proj.bias", "fc2.bias"):
        key = f"sentence_encoder.layers.1.{part}"
        assert torch.equal(state[key], old.state_dict()[key])


def test_heads_that_share_get_their_mean(make, monkeypatch):
    seen, text = [], torch.zeros(4, N, dtype=torch.long).random_(4, 29)
    monkeypatch.setattr(start, "fit", lambda bias, logits, table: seen.append(logits))
    warm_start(make(), target_fields(make(), "tupe_a", ["sharing=head"]), text)
    torch.testing.assert_close(seen[0], logits_of(make(), text).mean(1))


def test_heads_stay_with_the_values_that_they_have(make):
    old, text = make("bert_r_tiny"), torch.randint(4, 29, (64, N), generator=torch.Generator().manual_seed(1))
    started = warm_start(old, target_fields(old, "tupe_r", []), text)
    before, after = (encoder.sentence_encoder for encoder in (old, started.encoder))
    assert started.fitted and torch.equal(after.position_bias.relative.weight, before.position_bias.relative.weight)
    for one, other in zip(after.layers, before.layers):
        assert torch.equal(one.self_attn.out_proj.weight, other.self_attn.out_proj.weight)


#: No positions at the input (ModernBERT has no biases either), positions that stay there, terms without a linear fit.
DRAWN = [
    ("rope_modern", "tupe_r"),
    ("rope_modern", "deberta"),
    ("tupe_a", "t5"),
    ("bert_a", "bert_a relative=kerple"),
    ("bert_a", "kerple"),
    ("bert_a", "bert_ad"),
]


@pytest.mark.parametrize(("source", "system"), DRAWN)
def test_terms_that_are_drawn(source, system, make, tokens):
    old, (name, *fields) = make(f"{source}_tiny"), system.split()
    started = warm_start(old, target_fields(old, name, fields), tokens)
    assert not started.exact and not started.fitted
    assert started.encoder(tokens)[0].isfinite().all()
    assert torch.equal(started.encoder.sentence_encoder.layers[1].fc2.weight, old.sentence_encoder.layers[1].fc2.weight)


@pytest.mark.parametrize("before", [False, True], ids=["post-norm", "pre-norm"])
def test_logits_of_a_model_whose_words_are_all_the_same(before, make):
    """There, the logits of each layer are those of positions alone, up to a constant a row and `[CLS]`'s own."""
    old = make(encoder_normalize_before=before)
    inner = old.sentence_encoder
    with torch.no_grad():
        inner.embed_tokens.weight.copy_(inner.embed_tokens.weight[:1].expand_as(inner.embed_tokens.weight).clone())
    tokens = torch.randint(4, 20, (3, N))
    tokens[:, 0] = 0
    found = logits_of(old, tokens)
    states = inner(tokens, return_all_hiddens=True)[1]
    for layer, block, x in zip(found, inner.layers, states):
        x = block.self_attn_layer_norm(x) if before else x
        query, (key, _) = block.self_attn.query(x), block.self_attn.key_value(x)
        wanted = centered((query @ key.transpose(2, 3) * block.self_attn.scale)[0][:, 1:, 1:])
        torch.testing.assert_close(centered(layer[:, 1:, 1:]), wanted, rtol=1e-4, atol=1e-4)


def test_heads_that_agree():
    generator = torch.Generator().manual_seed(3)
    base = torch.randn(4, 9, 9, generator=generator)
    orders = [torch.randperm(4, generator=generator) for _ in range(3)]
    layers = torch.stack([base[order] + 0.3 * torch.randn(4, 9, 9, generator=generator) for order in orders])
    places = torch.stack([order[found] for order, found in zip(orders, agreeing_heads(layers))])
    assert torch.equal(places, places[:1].expand_as(places))
