"""Each kind of term becomes one graph for all lengths, exports with any batch and length, and takes transforms."""

import pytest
import torch
from torch import nn
from torch.func import functional_call, grad, jvp, vmap

from tests.models.small import KINDS, small_batch

LENGTHS = range(5, 25)  # 20 of them; the last is all the positions that there are


@pytest.fixture
def model(request, build):
    """Of one layer, as more cost the compiler more; of the first kind two, which follow each other in the graph."""
    two = request.param in (KINDS[0], MODERN)
    fields = {"encoder_layers": 2 if two else 1, "attention_window": 4 if request.param == MODERN else 0}
    return build(f"{request.param}_tiny", **fields, dropout=0.0, attention_dropout=0.0)


MODERN = "tupe_a_rope_modern"  # a layer that sees all, and one in a window
kinds = pytest.mark.parametrize("model", [*KINDS, MODERN], indirect=True)


def batch(dictionary, length, size=3):
    """A pair and single sentences, one of them padded."""
    tokens = small_batch(dictionary, [length] * (size - 1) + [length - 2], seed=length)
    tokens[0, 1:3] = dictionary.eos()
    return tokens


def compiled(model, backend):
    """`torch.compile` whole, and the list of its graphs."""
    torch._dynamo.reset()
    graphs = []

    def counting(graph, example):
        graphs.append(graph)
        return torch._dynamo.lookup_backend(backend)(graph, example)

    return torch.compile(model, dynamic=True, fullgraph=True, backend=counting), graphs


@pytest.mark.parametrize("model", ["tupe_r", "shaw", "deberta", "diet_abs_lin", MODERN], indirect=True)
@torch.no_grad()
def test_few_graphs_for_many_lengths(model, dictionary):
    run, graphs = compiled(model, "eager")
    for length in LENGTHS:
        tokens = batch(dictionary, length, 2 + length % 3)
        torch.testing.assert_close(run(tokens)[0], model(tokens)[0], rtol=1e-4, atol=1e-5)
    for parameter in model.encoder.sentence_encoder.position_bias.parameters():
        parameter.mul_(2)  # the graph keeps no terms
    torch.testing.assert_close(run(tokens)[0], model(tokens)[0], rtol=1e-4, atol=1e-5)
    assert len(graphs) <= 2


@pytest.mark.parametrize("model", ["deberta"], indirect=True)
def test_gradients_of_the_whole_graph(model, dictionary):
    """Of terms that are computed once, and of words that meet distances: in training, every gradient is eager's."""
    run, graphs = compiled(model.train(), "aot_eager")
    for length in (9, 13):
        tokens, parameters = batch(dictionary, length), list(model.parameters())
        gradients = [torch.autograd.grad(either(tokens)[0].square().mean(), parameters) for either in (model, run)]
        torch.testing.assert_close(*gradients, rtol=1e-3, atol=1e-5)
    assert len(graphs) <= 2


class Logits(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, tokens):
        return self.model(tokens)[0]


@kinds
def test_exported(model, dictionary, tmp_path):
    sizes = {0: torch.export.Dim("batch", min=2, max=64), 1: torch.export.Dim("length", min=2, max=24)}
    program = torch.export.export(Logits(model), (batch(dictionary, 13),), dynamic_shapes=(sizes,))
    torch.export.save(program, tmp_path / "model.pt2")
    loaded = torch.export.load(tmp_path / "model.pt2").module()
    with torch.no_grad():
        for length in (24, 13, 5):
            tokens = batch(dictionary, length, 2 + length % 4)
            torch.testing.assert_close(loaded(tokens), model(tokens)[0], rtol=1e-5, atol=1e-5)


@kinds
def test_transforms(model, dictionary):
    tokens = batch(dictionary, 9)
    parameters = {name: p.detach() for name, p in model.named_parameters()}

    def loss(parameters, tokens):
        return functional_call(model, parameters, (tokens,))[0].square().mean()

    gradients = grad(loss)(parameters, tokens)
    model(tokens)[0].square().mean().backward()
    torch.testing.assert_close(gradients, {n: p.grad for n, p in model.named_parameters()}, rtol=1e-3, atol=1e-5)

    by_sample = vmap(grad(lambda parameters, row: loss(parameters, row[None])), (None, 0))(parameters, tokens)
    by_sample = {name: samples.mean(0) for name, samples in by_sample.items()}
    torch.testing.assert_close(by_sample, gradients, rtol=1e-3, atol=1e-5)

    ensemble = {name: torch.stack([p, 1.5 * p]) for name, p in parameters.items()}
    alone = [loss({name: p[i] for name, p in ensemble.items()}, tokens) for i in range(2)]
    torch.testing.assert_close(vmap(loss, (0, None))(ensemble, tokens), torch.stack(alone))

    tangents = {name: torch.randn_like(p) for name, p in parameters.items()}
    _, derivative = jvp(lambda parameters: loss(parameters, tokens), (parameters,), (tangents,))
    expected = sum((gradients[name] * tangent).sum() for name, tangent in tangents.items())
    torch.testing.assert_close(derivative, expected, rtol=1e-3, atol=1e-3)


def test_dropout_draws_for_each_sample(build, dictionary):
    model = build("tupe_r_tiny", dropout=0.5).train()
    rows = batch(dictionary, 9)[:1].expand(4, -1)
    with torch.no_grad():
        logits = vmap(lambda row: model(row[None])[0], randomness="different")(rows)
    assert not torch.equal(logits[0], logits[1])
