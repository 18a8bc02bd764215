"""The fits reproduce what a term can hold; words and norm as their equations say."""

import pytest
import torch

from tupe.checkpoints.warm_start.carry import into_words
from tupe.checkpoints.warm_start.fit import fit, held
from tupe.checkpoints.warm_start.logits import centred
from tupe.checkpoints.warm_start.start import build, warm_start, without_order
from tupe.checkpoints.warm_start.target import target_fields
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
        return centred(term.compute(N).bias)


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("tupe_a_tie_cls_tiny", {}),
        ("tupe_a_tie_cls_tiny", {"untied_projection_bias": True, "sharing": "none"}),
        ("tupe_a_tie_cls_tiny", {"sharing": "head"}),
        ("diet_abs_tiny", {"position_rank": N}),
        ("diet_abs_tiny", {"position_rank": 3 * N, "sharing": "none"}),
        ("diet_abs_tiny", {"absolute": "free"}),
    ],
    ids=str,
)
def test_any_logits_of_the_rank_of_an_absolute_term(name, fields):
    term = terms(name, **fields)
    sets = {"layer": 2, "none": 4, "head": 2}[fields.get("sharing", "layer")]
    logits = centred(noise(sets, N, 5) @ noise(sets, 5, N, seed=1))
    fit(term, logits, noise(N, WIDTH, seed=2), relative=False)
    torch.testing.assert_close(bias_of(term), logits, rtol=0, atol=1e-4)
    if "low_rank" in str(term):
        assert term.absolute.query.abs().sum((0, 1)).min() > 0  # no rank is zero in both factors


def test_a_table_whose_rows_are_alike():
    term, table = terms("tupe_a_tie_cls_tiny"), noise(1, WIDTH) + 1e-5 * noise(N, WIDTH, seed=2)
    logits = centred(noise(2, N, 5) @ noise(2, 5, N, seed=1))
    fit(term, logits, table, relative=False)
    torch.testing.assert_close(bias_of(term), logits, rtol=0, atol=1e-2)
    assert 0.05 < float((term.absolute.table.weight.detach() - table).norm() / table.norm()) < 0.2
    own = noise(N, WIDTH, seed=3)
    fit(term, logits, own, relative=False)
    assert torch.equal(term.absolute.table.weight, own)


@pytest.mark.parametrize("name", ["tupe_a_tiny", "tupe_r_tiny", "diet_abs_tiny", "t5_tiny"])
def test_a_reset_keeps_the_rest_and_the_mean_of_what_the_others_give_cls(name):
    source = terms(name, reset="paper", sharing="none", relative_max_distance=40)
    with torch.no_grad():
        for parameter in source.parameters():
            parameter.copy_(noise(*parameter.shape, seed=parameter.numel()) / parameter.shape[-1] ** 0.25)
        if name == "tupe_r_tiny":
            source.relative.weight.zero_()
    logits = bias_of(source)
    term = terms(name, reset="paper", sharing="none", relative_max_distance=40, position_rank=N)
    with torch.no_grad():
        if name == "tupe_r_tiny":
            term.relative.weight.zero_()
    fit(term, logits, noise(N, WIDTH, seed=2), relative=name == "t5_tiny")
    wanted, found = logits[:, 1:], bias_of(term)[:, 1:]
    torch.testing.assert_close(centred(found[..., 1:]), centred(wanted[..., 1:]), rtol=0, atol=1e-4)
    to_cls = [(x[..., 0] - x[..., 1:].mean(-1)).mean(1) for x in (wanted, found)]
    torch.testing.assert_close(*to_cls, rtol=0, atol=1e-3)


@pytest.mark.parametrize("relative", ["bucketed", "clipped", "unbinned"])
def test_values_by_distance(relative):
    source, term = (terms("t5_tiny", relative=relative, relative_max_distance=9) for _ in range(2))
    with torch.no_grad():
        source.relative.weight.copy_(noise(*source.relative.weight.shape))
    logits = bias_of(source)
    fit(term, logits, torch.empty(0), relative=True)
    torch.testing.assert_close(bias_of(term), logits, rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("name", "least"),
    [("alibi_learned_tiny", 0.99), ("kerple_tiny", 0.99), ("fire_tiny", 0.97), ("t5_tiny relative=parametric", 0.97)],
)
def test_terms_without_a_formula(name, least):
    name, _, field = name.partition(" ")
    fields = dict([field.split("=")]) if field else {}
    source, term = terms(name, **fields), terms(name, **fields)
    with torch.no_grad():
        for number, parameter in enumerate(source.relative.parameters()):
            parameter.add_(0.5 * noise(*parameter.shape, seed=number))
    logits = bias_of(source)
    fit(term, logits, torch.empty(0), relative=True)
    shares = held(term, torch.stack([logits] * 2))
    assert min(shares) > least


def test_what_is_held_is_a_share():
    term = terms("t5_tiny", relative="unbinned")
    with torch.no_grad():
        term.relative.weight.copy_(noise(2 * N - 1, HEADS))
    logits = bias_of(term)
    assert held(term, torch.stack([logits, 2 * logits])) == pytest.approx([1, 0.75], abs=1e-5)


@pytest.mark.parametrize("sharing", ["layer", "head", "none"])
def test_what_is_held_is_of_those_who_share(sharing):
    """Two layers and two heads, so that the number of values says nothing."""
    term = terms("t5_tiny", relative="unbinned", sharing=sharing)
    with torch.no_grad():
        term.relative.weight.copy_(noise(*term.relative.weight.shape))
    sets = bias_of(term)
    logits = {
        "layer": lambda: torch.stack([sets, sets]),
        "head": lambda: torch.stack([sets, sets], 1),
        "none": lambda: sets.view(2, HEADS, N, N),
    }[sharing]()
    assert held(term, logits, sharing) == pytest.approx([1, 1], abs=1e-5)


def test_what_is_held_of_weights(make):
    old = make()
    cross = warm_start(old, target_fields(old, "bert_ad", ["sharing=none"]), None, "weights")
    assert cross.held == pytest.approx([1, 1], abs=1e-3)
    assert len(warm_start(old, target_fields(old, "t5", []), None, "weights").held) == 1


def test_a_constant_goes_into_the_words(make, tokens):
    """Every logit of a tied output moves by the same."""
    old = make()
    still = without_order(old)
    new = build(target_fields(old, "t5", ["segment=none"]), 30).eval()
    with torch.no_grad():
        state = new.state_dict()
        for name, tensor in old.state_dict().items():
            if name in state:
                state[name].copy_(tensor)
        new.sentence_encoder.position_bias.relative.weight.zero_()
        into_words(old, new)
        one, other = (m.double()(tokens)[0].log_softmax(-1)[tokens.ne(1)] for m in (still, new))
    torch.testing.assert_close(one, other, rtol=0, atol=1e-6)


#: What imported models have: BERT's segments, separators and eps, ELECTRA's width of the words, an output of its own.
IMPORTED = (
    {"segment": "input", "pair_separators": 1, "layer_norm_eps": 1e-12},
    {"embedding_dim": 24, "untie_weights_roberta": True},
    {"no_layernorm_embedding": True},
)


@pytest.mark.parametrize("own", IMPORTED, ids=str)
@pytest.mark.parametrize("system", ["tupe_r", "diet_rel", "shaw", "fire", "bert_ad sharing=none"])
def test_of_imported_models(own, system, make, tokens):
    old = make(std=0.1, **own)
    text = torch.randint(4, 29, (64, N), generator=torch.Generator().manual_seed(1))
    text[:, 0] = 0
    name, *fields = system.split()
    started = warm_start(old, target_fields(old, name, fields), text)
    for field, value in own.items():
        assert getattr(started.encoder.args, field) == value
    assert started.encoder(tokens)[0].isfinite().all()
    assert max(started.held) > 0
    state = started.encoder.state_dict()
    for part in ("fc1.weight", "self_attn.out_proj.bias", "fc2.bias"):
        key = f"sentence_encoder.layers.1.{part}"
        assert torch.equal(state[key], old.state_dict()[key])
