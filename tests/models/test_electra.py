"""A generator and a discriminator: what they share, what is drawn, and that each is a model of its system."""

import copy
import math

import pytest
import torch

from tupe.models.electra import draw
from tupe.models.summary import meta_model, size_of
from tupe.systems import SYSTEMS

ALL = [f"electra_{system}_tiny" for system in SYSTEMS]
AT_INPUT = {"embed_tokens.weight", "layernorm_embedding.weight", "layernorm_embedding.bias"}
TABLE = {f"position_bias.absolute.{name}" for name in ("table.weight", "layer_norm.weight", "layer_norm.bias")}
THETA = {"position_bias.reset.vectors"}


def shared(model):
    """Names within the encoders of what is one object in both."""
    ours, own = (dict(network.sentence_encoder.named_parameters()) for network in (model.encoder, model.generator))
    return {name for name, parameter in ours.items() if parameter is own.get(name)}


def expected(system):
    fields = SYSTEMS[system]
    names = set(AT_INPUT)
    names |= {"input_positions.weight"} if fields["absolute"] == "input" else set()
    names |= {"input_segments.weight"} if fields["segment"] == "input" else set()
    names |= TABLE if fields["absolute"].startswith("untied") else set()
    return names | (THETA if fields["absolute"] == "untied" and fields["reset"] != "none" else set())


def step(model, tokens, **options):
    """Words are drawn at two positions of the first row and one of the second."""
    positions = torch.tensor([3, 5, tokens.shape[1] + 2])
    masked = tokens.flatten().index_fill(0, positions, 44).view_as(tokens)
    uniform = torch.tensor([0.1, 0.5, 0.9])
    return model(masked, original=tokens, masked_tokens=positions, uniform=uniform, **options)


@pytest.mark.parametrize("system", SYSTEMS)
def test_shared_is_one_object_and_stays_so(build, tokens, system):
    model = build(f"electra_{system}_tiny")
    assert shared(model) == expected(system)
    assert model.generator.lm_head.weight is model.encoder.sentence_encoder.embed_tokens.weight
    state = model.state_dict()
    assert len({tensor.data_ptr() for tensor in state.values()}) == len(state) == len(list(model.parameters()))
    other = build(f"electra_{system}_tiny")
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.zero_()
    other.load_state_dict(dict(state))
    with torch.no_grad():
        assert torch.equal(step(other, tokens).scores, step(model, tokens).scores)
        assert torch.equal(step(other, tokens).logits, step(model, tokens).logits)
    for changed in (other, copy.deepcopy(model), copy.deepcopy(model).half(), copy.deepcopy(model).double()):
        assert shared(changed) == expected(system)
        assert len(changed.state_dict()) == len(state)


def test_published_counts():
    """ELECTRA-TUPE at base size with 32,768 symbols, by hand from the paper's widths."""
    networks = meta_model("electra_tupe_base", 32_768, 512)
    assert sum(p.numel() for p in networks.discriminator_head.parameters()) == 591_361
    projection, layers, head = 196_864, 9_477_120, 197_376 + 1_536 + 32_768
    size = size_of(networks)
    assert size.generator == projection + layers + head + 2 * 768 * 256 + 32 * 4
    plain = size_of(meta_model("tupe_base", 32_768, 512))
    language_model_head = 768**2 + 768 + 2 * 768 + 32_768
    assert size.total - size.generator == plain.total - language_model_head + 591_361
    assert size.position == plain.position
    small = meta_model("electra_bert_a_small", 30_522, 128)  # 14M in the paper
    assert sum(p.numel() for p in small.encoder.parameters()) == pytest.approx(13.5e6, rel=0.01)


def test_names_and_sizes():
    for size, width, heads in (("tiny", 64, 2), ("small", 64, 1), ("base", 256, 4), ("large", 256, 4)):
        networks = meta_model(f"electra_tupe_{size}", 100, 16)
        layer = networks.generator.sentence_encoder.layers[0]
        assert (layer.fc2.out_features, layer.fc1.out_features) == (width, 4 * width)
        assert layer.self_attn.num_heads == heads


@pytest.mark.parametrize("temperature", [1.0, 0.5])
def test_draws_follow_the_softmax(temperature):
    """Chi-square of 200,000 draws, with what is never drawn left out; 0.001 critical value of 16 degrees is 39.3."""
    generator = torch.Generator().manual_seed(1)
    logits, never = 2 * torch.randn(20, generator=generator), torch.tensor([0, 1, 19])
    uniform = torch.rand(200_000, generator=generator)
    drawn = draw(logits.expand(len(uniform), -1), uniform, never, temperature).bincount(minlength=20).double()
    exact = (logits.double() / temperature).index_fill(0, never, -torch.inf).softmax(0)
    assert not drawn[never].any()
    kept = exact > 0
    wanted = exact[kept] * len(uniform)
    assert ((drawn[kept] - wanted) ** 2 / wanted).sum() < 39.3


def test_extreme_draws():
    logits = torch.randn(50, 30, generator=torch.Generator().manual_seed(1)).half()
    never = torch.tensor([0, 29])
    allowed = logits.float().index_fill(1, never, -torch.inf)
    last = torch.full((50,), 1 - 2**-24)
    assert torch.equal(draw(logits, last, never, 1e-30), allowed.argmax(1))
    assert torch.equal(draw(logits, last, never), torch.full((50,), 28))  # the largest number below 1: never the 29th
    assert torch.equal(draw(logits, torch.zeros(50), never), torch.full((50,), 1))
    uniform = torch.rand(50)
    assert torch.equal(draw(logits, uniform, never), draw(logits.float(), uniform, never))
    assert draw(logits[:0], uniform[:0], never).shape == (0,)


@pytest.mark.parametrize("number", [math.nan, math.inf])
def test_logits_that_are_not_finite_make_a_loss_that_is_not(build, tokens, number):
    """fairseq then skips the update and lowers the scale, or says so; a symbol beyond the last would end a GPU."""
    model = build("electra_tupe_tiny")
    model.generator.lm_head.bias.data[5] = number
    found = step(model, tokens)
    assert found.tokens.max() < found.logits.shape[-1] and not found.logits.isfinite().all()


@pytest.mark.parametrize("name", ALL)
def test_step(build, tokens, name):
    """What was drawn is seen by the discriminator; no gradient connects it to the generator's own parameters."""
    model = build(name)
    found = step(model, tokens)
    changed = (found.tokens != tokens).flatten().nonzero().flatten()
    assert set(changed.tolist()) <= {3, 5, 15}
    torch.testing.assert_close(found.scores, model.discriminator_head(model(found.tokens, features_only=True)[0]))
    found.scores.square().sum().backward()
    own = {name for name, p in model.generator.named_parameters() if p.grad is not None}
    assert own <= {f"sentence_encoder.{name}" for name in shared(model)} | {"lm_head.weight"}
    model.zero_grad()
    found = step(model, tokens)
    (found.scores.square().sum() + found.logits.square().sum()).backward()
    assert not [name for name, p in model.named_parameters() if p.grad is None]
