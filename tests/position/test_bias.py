"""`PositionBias`: the sum, as a function of its parameters in every kind of PyTorch code, and what it keeps."""

import copy
import pickle
from unittest.mock import patch

import pytest
import torch
from torch import nn
from torch.func import functional_call
from torch.nn.utils import prune

from tests.position.contract import drawn, on_meta
from tests.position.replicas import replica
from tupe.attention import biased_attention
from tupe.position import (
    AlibiRelative,
    BucketedRelative,
    FreeAbsolute,
    KerpleRelative,
    LowRankAbsolute,
    Phases,
    PositionBias,
    RelativeEmbeddings,
    Reset,
    Rotary,
    UnbinnedRelative,
    UntiedAbsolute,
)

ALL = 32  # positions that there are
BUILD = {
    "TUPE-R": lambda: PositionBias(UntiedAbsolute(ALL, 12, 3), BucketedRelative(3), Reset(3, 12, "release", True)),
    "BERT-A^d": lambda: PositionBias(UntiedAbsolute(ALL, 12, 3, num_terms=4), UnbinnedRelative(3, ALL), cross=True),
    "DIET-ABS": lambda: PositionBias(LowRankAbsolute(ALL, 4, 3)),
    "DIET-ABS-LIN": lambda: PositionBias(LowRankAbsolute(ALL, 4, 3, num_keys=5)),
    "free, T5's decoder": lambda: PositionBias(FreeAbsolute(ALL, 3), BucketedRelative(3, bidirectional=False)),
    "KERPLE, reset": lambda: PositionBias(None, KerpleRelative(3), Reset(3)),
    "DeBERTa": lambda: PositionBias(embeddings=RelativeEmbeddings(6, 9, 6)),
    "PoPE": lambda: PositionBias(rotation=Rotary(8), phases=Phases(3, 4)),
    "ALiBi, rotated": lambda: PositionBias(None, AlibiRelative(3), rotation=Rotary(8)),
}
every = pytest.mark.parametrize("name", BUILD)
with_parameters = pytest.mark.parametrize("name", [name for name in BUILD if name != "ALiBi, rotated"])


def build(name):
    return drawn(BUILD[name]())


def seen(terms):
    """What attention takes of the terms."""
    names = ("bias", "rotation", "phase", "content_query", "content_key", "distances")
    return {name: getattr(terms, name) for name in names if getattr(terms, name) is not None}


def same(found, wanted, **close):
    torch.testing.assert_close(seen(found), seen(wanted), **close)


@pytest.mark.parametrize(
    ("absolute", "fields", "products"), [(0, {}, 1), (1, {}, 2), (1, {"cross": True}, 4), (1, {"num_terms": 3}, 3)]
)
def test_scale_is_one_over_the_root_of_the_products_times_the_width(absolute, fields, products):
    position = PositionBias(UntiedAbsolute(4, 8, 2) if absolute else None, BucketedRelative(2), **fields)
    assert position.scale(16) == pytest.approx(1 / (products * 16) ** 0.5)


def test_terms_of_other_heads_are_refused():
    untied = UntiedAbsolute(8, 8, 2)
    assert PositionBias(untied, BucketedRelative(1), Reset(2))(4).bias.shape == (2, 4, 4)  # one head is that of all
    for wrong in ((untied, BucketedRelative(3)), (untied, None, Reset(4, 8))):
        with pytest.raises(AssertionError):
            PositionBias(*wrong)


@pytest.mark.parametrize("evaluation", [False, True])
@pytest.mark.parametrize("span", [(5, 9, 0), (9, 4, 0), (1, None, 6), (3, None, 4), (2, 11, 5), (ALL, None, 0)])
@every
def test_is_a_slice_of_the_whole(name, span, evaluation):
    """Computed alone, and of what is kept; Linformer's keys are all there, unless fewer are asked for."""
    position, (length, num_keys, first) = build(name), span
    whole = seen(position(ALL))
    with torch.set_grad_enabled(not evaluation):
        found = seen(position.train(not evaluation)(*span))
    end, keys = first + length, num_keys or position.num_keys or first + length
    if "bias" in whole:
        whole["bias"] = whole["bias"][:, first:end, :keys]
    if "distances" in whole:
        whole["distances"] = whole["distances"][ALL - end : ALL + end + 1]
    for part, rows in (("rotation", (first, end)), ("content_query", (first, end)), ("content_key", (0, keys))):
        if part in whole:
            whole[part] = whole[part][:, slice(*rows)]
    torch.testing.assert_close(found, whole)


@every
def test_built_on_the_meta_device(name):
    position = build(name)
    made = on_meta(BUILD[name], position.state_dict())
    same(made(9), position(9), rtol=0, atol=0)
    assert made.state_dict().keys() == dict(made.named_parameters()).keys()
    assert all(part.is_meta for part in seen(position.to("meta")(9)).values())


@every
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_and_autocast_give_float32_and_double_gives_float64(name, dtype):
    position, exact = build(name).to(dtype), BUILD[name]().double()
    exact.load_state_dict(position.state_dict())
    with torch.autocast("cpu", torch.bfloat16):
        found, wanted = seen(position(16)), seen(exact(16))
    for part, values in wanted.items():
        assert found[part].dtype == torch.float32
        assert values.dtype == torch.float64 or not position.has_parameters
        assert (found[part] - values).norm() < 1e-6 * values.norm()


@with_parameters
def test_transforms(name):
    """Other parameters for a call, their gradient, `jvp`, and `vmap` over an ensemble."""
    position = build(name).double().eval()
    parameters = dict(position.named_parameters())

    def loss(parameters):
        parts = seen(functional_call(position, parameters, (9,))).values()
        return sum((part.flatten() * torch.linspace(1, 2, part.numel())).sum() for part in parts)

    gradients = torch.func.grad(loss)(parameters)
    wanted = torch.autograd.grad(loss(parameters), list(parameters.values()))
    torch.testing.assert_close(list(gradients.values()), list(wanted))
    tangents = {name: torch.randn_like(p) for name, p in parameters.items()}
    _, derivative = torch.func.jvp(loss, (parameters,), (tangents,))
    torch.testing.assert_close(derivative, sum((gradients[n] * t).sum() for n, t in tangents.items()))
    with torch.no_grad():
        position(9)  # what is kept is of no use to the others
        ensemble = {name: torch.stack([p, 2 * p]) for name, p in parameters.items()}
        alone = torch.stack([loss(parameters), loss({name: 2 * p for name, p in parameters.items()})])
        torch.testing.assert_close(torch.func.vmap(loss)(ensemble), alone)
        assert not torch.allclose(*alone)


class OfInput(nn.Module):
    """The terms of as many positions as the input has rows."""

    def __init__(self, position):
        super().__init__()
        self.position = position

    def forward(self, x):
        return seen(self.position(x.shape[0]))


@every
@torch.no_grad()
def test_one_graph_for_all_lengths(name):
    module, graphs, sizes = OfInput(build(name)).eval(), [], ({0: torch.export.Dim("n", min=2, max=ALL - 1)},)
    torch._dynamo.reset()
    exported = torch.export.export(module, (torch.zeros(9),), dynamic_shapes=sizes).module()
    backend = lambda graph, _: graphs.append(graph) or graph.forward  # noqa: E731
    compiled = torch.compile(module, dynamic=True, fullgraph=True, backend=backend)
    for length in (9, 5, ALL - 1):
        x = torch.zeros(length)
        torch.testing.assert_close(exported(x), module(x))
        torch.testing.assert_close(compiled(x), module(x))
    for parameter in module.parameters():
        parameter.mul_(2)  # the graph keeps no terms
    torch.testing.assert_close(compiled(torch.zeros(ALL)), module(torch.zeros(ALL)))
    assert len(graphs) <= 2  # all positions that there are need no slicing


@with_parameters
@pytest.mark.parametrize("gradients", [True, False])
def test_replicas(name, gradients):
    """Those of `DataParallel` have no parameters; weights in other hands are not watched, and nothing is kept."""
    position = build(name).eval()
    with torch.set_grad_enabled(gradients):
        twin, want = replica(position), position(9)
        same(twin(9), want)
        with torch.no_grad():
            for weight in (weight for module in twin.modules() for weight in vars(module).values()):
                if isinstance(weight, torch.Tensor):
                    weight.mul_(2)
        assert not all(map(torch.equal, seen(twin(9)).values(), seen(want).values()))
        same(position(9), want)


@pytest.fixture
def position():
    return build("TUPE-R").eval()


def calls(position, *lengths):
    with patch.object(position, "compute", wraps=position.compute) as compute:
        for length in lengths:
            position(length)
    return compute.call_count


@torch.no_grad()
def test_evaluation_computes_once_and_slices(position):
    assert calls(position, 9, 9, 4, 1, 9) == 1
    assert calls(position, 12) == 0  # made for 16
    assert calls(build("ALiBi, rotated").eval(), 9, 7) == 1
    assert calls(build("TUPE-R").eval(), *range(1, ALL + 1)) == 6  # rising lengths
    with pytest.raises(ValueError, match="33 tokens is longer than the 32 positions"):
        position(ALL + 1)


def test_training_and_gradients_compute_each_time(position):
    assert calls(position, 5, 5) == 2 and position(5).bias.requires_grad
    with torch.no_grad():
        assert calls(position.train(), 5, 5) == 2


def replace_weight(position, value):
    """By a parameter that may get its memory."""
    del position.relative.weight
    position.relative.weight = nn.Parameter(torch.full((1000, 3), value))


@pytest.mark.parametrize(
    "change",
    [
        lambda p: p.relative.weight.add_(1),
        lambda p: torch.optim.SGD(p.parameters(), lr=0.1).step(),
        lambda p: (torch.optim.AdamW(p.parameters(), lr=0.1, fused=True).step(), p.eval()),
        lambda p: p.load_state_dict({name: t + 1 for name, t in p.state_dict().items()}),
        lambda p: p.load_state_dict({name: t + 1 for name, t in p.state_dict().items()}, assign=True),
        lambda p: (p.relative.weight.data.add_(1), p.eval()),
        lambda p: (replace_weight(p, 1.0), p(5), replace_weight(p, 2.0)),
        lambda p: prune.l1_unstructured(p.relative, "weight", amount=0.5),
        lambda p: nn.utils.parametrize.register_parametrization(p.absolute.query, "weight", nn.Tanh()),
        lambda p: p.to(torch.bfloat16),
        lambda p: p.double(),
    ],
)
@torch.no_grad()
def test_a_change_is_seen(position, change):
    for parameter in position.parameters():
        parameter.grad = torch.ones_like(parameter)
    before = position(5).bias
    change(position)
    after = position(5).bias
    torch.testing.assert_close(after, position.compute(5).bias)
    assert after.dtype == torch.float64 or not torch.equal(before, after)


@torch.no_grad()
def test_copies_and_other_parameters_for_a_call(position):
    want, doubled = position(9), {name: 2 * p for name, p in position.named_parameters()}
    assert not torch.equal(functional_call(position, doubled, (9,)).bias, want.bias)
    for twin in (copy.deepcopy(position), pickle.loads(pickle.dumps(position))):
        same(twin(9), want)
        twin.relative.weight.add_(1)
        same(twin(9), twin.compute(9))
        assert not torch.equal(twin(9).bias, want.bias)
    same(position(9), want)


def test_under_inference_mode(position):
    """Its parameters count no changes, and its terms serve a gradient of the words."""
    with torch.inference_mode():
        inferring, other = (build("TUPE-R").eval() for _ in range(2))
        before = inferring(9)
        other.relative.weight.add_(1)
        inferring.load_state_dict(other.state_dict())
        same(inferring(9), other.compute(9))
        assert not torch.equal(inferring(9).bias, before.bias)
        position(6)
    with torch.no_grad():
        bias = position(6).bias
    words = torch.randn(2, 3, 6, 4, requires_grad=True)
    biased_attention(words, words, words, bias, scale=0.5).sum().backward()
    assert words.grad.any()
