"""`PositionBias`: the sum, as a function of its parameters in every kind of PyTorch code, and what it keeps."""

import copy
import pickle
from unittest.mock import patch

import pytest
import torch
from torch import nn
from torch.func import functional_call
from torch.nn.utils import prune

from tests.position.contract import drawn
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
    Terms,
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
    "ALiBi, reset": lambda: PositionBias(None, AlibiRelative(3), Reset(3)),
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


def test_positions_start_as_berts():
    for parameter in (term := UntiedAbsolute(200, 64, 2)).table, term.query, term.key:
        assert parameter.weight.std().item() == pytest.approx(0.02, rel=0.05)


def test_terms_of_other_heads_are_refused():
    untied = UntiedAbsolute(8, 8, 2)
    assert PositionBias(untied, BucketedRelative(1), Reset(2))(4).bias.shape == (2, 4, 4)  # one head is that of all
    for wrong in ((untied, BucketedRelative(3)), (untied, None, Reset(4, 8)), (None, None, Reset(2))):
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
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_and_autocast_give_float32_and_double_gives_float64(name, dtype):
    position, exact = build(name).to(dtype), BUILD[name]().double()
    exact.load_state_dict(position.state_dict())
    if name == "KERPLE, reset":  # a term of one's own may have buffers
        position.relative.register_buffer("rate", position.relative._parameters.pop("rate").data)
    with torch.autocast("cpu", torch.bfloat16):
        found, wanted = seen(position(16)), seen(exact(16))
    for part, values in wanted.items():
        assert found[part].dtype == torch.float32
        assert values.dtype == torch.float64 or not position.num_parameters
        assert (found[part] - values).norm() < 1e-6 * values.norm()


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


@torch.no_grad()
def test_an_adapter_that_is_switched(position):
    position.absolute.query.lora = torch.nn.Linear(1, 1)
    hook = position.absolute.query.register_forward_hook(lambda module, _, product: product + 1)
    with_adapter = seen(position(9))
    hook.remove()
    assert not all(map(torch.equal, seen(position(9)).values(), with_adapter.values()))


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


class Racing(PositionBias):
    """Another thread calls `eval()` as soon as terms are cached."""

    def __setattr__(self, name, value):
        super().__setattr__(name, ([], [], Terms()) if name == "_cache" else value)


@torch.no_grad()
def test_threads_may_share_a_model():
    assert Racing(relative=BucketedRelative(3)).eval()(5).bias.shape == (3, 5, 5)


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
    assert calls(copy.copy(position), 9) == 1  # a copy of a copy can have the addresses of the first
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
