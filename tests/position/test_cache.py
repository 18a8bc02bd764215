"""The terms are a function of the parameters; they are not cached wherever that could show."""

import copy
import pickle

import pytest
import torch
from torch.func import functional_call
from torch.nn.utils import parametrize, prune

from tests.position.replicas import replica
from tupe.attention import biased_attention
from tupe.position import (
    BucketedRelative,
    LowRankAbsolute,
    ParametricRelative,
    PositionBias,
    Reset,
    UnbinnedRelative,
    UntiedAbsolute,
)

TERMS = {
    "TUPE-R": lambda: PositionBias(UntiedAbsolute(32, 12, 3), BucketedRelative(3), Reset(3, 12)),
    "DIET-ABS": lambda: PositionBias(LowRankAbsolute(32, 4, 3)),
    "DIET-REL": lambda: PositionBias(None, UnbinnedRelative(3, 32), Reset(3)),
    "parametric": lambda: PositionBias(None, ParametricRelative(12, 3, 4, 8)),
}


@pytest.fixture(params=TERMS.values(), ids=TERMS)
def position(request):
    torch.manual_seed(0)
    return request.param().eval()


@pytest.mark.parametrize("gradients", [True, False])
def test_replicas(position, gradients):
    with torch.set_grad_enabled(gradients):
        twin, want = replica(position), position(9).bias
        assert not list(twin.parameters())
        torch.testing.assert_close(twin(9).bias, want)
        with torch.no_grad():
            for module in twin.modules():
                for name in module.__dict__.get("_former_parameters", module._parameters) or vars(module):
                    if isinstance(vars(module).get(name), torch.Tensor):
                        vars(module)[name].mul_(2)
        assert not torch.equal(twin(9).bias, want)
        torch.testing.assert_close(position(9).bias, want)


@torch.no_grad()
def test_one_graph_for_all_lengths(position):
    torch._dynamo.reset()
    graphs = []
    compiled = torch.compile(
        position, dynamic=True, fullgraph=True, backend=lambda graph, _: graphs.append(graph) or graph.forward
    )
    for length in (9, 5, 32, 17):
        torch.testing.assert_close(compiled(length).bias, position(length).bias)
    assert len(graphs) <= 2  # all positions that there are need no slicing


def test_copies_start_empty(position):
    with torch.no_grad():
        position(9)
    assert position._cache._entries
    for twin in (copy.deepcopy(position), pickle.loads(pickle.dumps(position))):
        assert not twin._cache._entries
        torch.testing.assert_close(twin(9).bias, position(9).bias)
        with torch.no_grad():
            twin(9)
    assert len(pickle.dumps(position)) == len(pickle.dumps(copy.deepcopy(position)))


@torch.no_grad()
@pytest.mark.parametrize("inference", [False, True])
def test_other_parameters_for_a_call(position, inference):
    with torch.inference_mode(inference):
        doubled = {name: 2 * p for name, p in position.named_parameters()}
        want, got = position(9).bias, functional_call(position, doubled, (9,)).bias
        assert not torch.equal(got, want)
        torch.testing.assert_close(position(9).bias, want)


def test_loading_under_inference_mode():
    with torch.inference_mode():
        position, other = (TERMS["TUPE-R"]().eval() for _ in range(2))
        before = position(9).bias
        position.load_state_dict(other.state_dict())
        torch.testing.assert_close(position(9).bias, other.compute(9).bias)
        assert not torch.equal(position(9).bias, before)


def weights(position):
    return [(module, name) for module in position.modules() for name, _ in module.named_parameters(recurse=False)]


@torch.no_grad()
@pytest.mark.parametrize("structured", [False, True])
def test_pruned(position, structured):
    """A pruned weight is made anew before each `forward` of its module, from one that optimizers change."""
    before = position(9, structured=structured).bias
    for module, name in weights(position):
        prune.l1_unstructured(module, name, amount=0.5)
    first = position(9, structured=structured).bias
    for name, parameter in position.named_parameters():
        parameter.mul_(2 if name.endswith("_orig") else 1)
    second = position(9, structured=structured).bias
    if structured:
        before, first, second = (bias.dense(9) for bias in (before, first, second))
    assert not torch.equal(before, first)
    assert not torch.equal(first, second)
    for module, name in weights(position):
        prune.remove(module, name.removesuffix("_orig"))
    torch.testing.assert_close(position(9).bias, second)


@torch.no_grad()
def test_what_wraps_or_hooks_a_projection_runs():
    position = TERMS["TUPE-R"]().eval()
    want = position(9).bias
    calls = []
    handle = position.absolute.key.register_forward_hook(lambda *_: calls.append(1))
    position.clear_cache()
    position(9)
    assert calls
    handle.remove()
    plain = position.absolute.key.forward
    position.absolute.key.forward = lambda x: calls.append(2) or plain(x)  # as Accelerate's hooks
    position.clear_cache()
    position(9), position(9)
    assert calls.count(2) == 2  # of the positions, and of theta
    del position.absolute.key.forward
    parametrize.register_parametrization(position.absolute.query, "weight", Double())
    assert not torch.equal(position(9).bias, want)
    parametrize.remove_parametrizations(position.absolute.query, "weight", leave_parametrized=False)
    torch.testing.assert_close(position(9).bias, want)


class Double(torch.nn.Module):
    def forward(self, weight):
        return 2 * weight


def test_transforms(position):
    """`grad`, `jvp` and `vmap` over an ensemble."""
    parameters = dict(position.named_parameters())
    weight = torch.randn(3, 9, 9)

    def loss(parameters):
        return (functional_call(position, parameters, (9,)).bias * weight).sum()

    gradients = torch.func.grad(loss)(parameters)
    loss(parameters).backward()
    torch.testing.assert_close(gradients, {name: p.grad for name, p in parameters.items()})
    tangents = {name: torch.randn_like(p) for name, p in parameters.items()}
    _, derivative = torch.func.jvp(loss, (parameters,), (tangents,))
    torch.testing.assert_close(
        derivative, sum((gradients[n] * t).sum() for n, t in tangents.items()), rtol=1e-4, atol=1e-4
    )
    ensemble = {name: torch.stack([p, 2 * p]).detach() for name, p in parameters.items()}
    with torch.no_grad():
        losses = torch.func.vmap(loss)(ensemble)
        torch.testing.assert_close(losses[0], loss(parameters))


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize("structured", [False, True])
def test_a_caller_that_changes_the_terms_changes_its_own_alone(position, mode, structured):
    with mode():
        terms = position(8, structured=structured).bias
        parts = [part for part in (terms if isinstance(terms, tuple) else (terms,)) if part is not None]
        wanted = [part.clone() for part in parts]
        parts[0].fill_(-torch.inf)
        again = position(8, structured=structured).bias
        again = [part for part in (again if isinstance(again, tuple) else (again,)) if part is not None]
        assert all(map(torch.equal, again, wanted))


def test_terms_of_inference_mode_serve_a_gradient_of_the_words(position):
    with torch.inference_mode():
        position(6)
    with torch.no_grad():
        bias = position(6).bias
    words = torch.randn(2, 3, 6, 4, requires_grad=True)
    biased_attention(words, words, words, bias, scale=0.5).sum().backward()
    assert words.grad.any()
