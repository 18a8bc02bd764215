"""Tokens side by side give what the padded batch gives: outputs and gradients; and sequences stay apart."""

import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.models.small import KINDS, small_batch
from tupe.attention.kernels.check import BOUNDS
from tupe.encoder import encoder, unpadded
from tupe.encoder.unpadded import Tokens, group_sizes, packed, without_padding

NO_DROPOUT = {"dropout": 0.0, "attention_dropout": 0.0}
LENGTHS = (8, 13, 1, 8, 2, 12, 13)
VARIANTS = [
    *((f"{system}_tiny", {}) for system in KINDS),
    ("tupe_tiny", {"encoder_normalize_before": True, "checkpoint_activations": True, "sharing": "none"}),
    ("tupe_tiny", {"attention_backend": "sdpa", "embedding_dim": 8, "reset": "release"}),
    ("bert_a_tiny", {"segment": "input", "no_layernorm_embedding": True}),
    ("diet_rel_tiny", {"sharing": "layer", "segment": "per_head"}),
    ("shaw_tiny", {"shaw_values": True}),
    ("electra_tupe_tiny", {}),
]


@pytest.fixture(params=[0, 12_000, None], ids=["each length", "counted", "one group"])
def groups(request, monkeypatch):
    """How many groups there are: as many as lengths, as few as pay, or one, as on a GPU."""
    if request.param is None:
        one = lambda padding, num_tokens, num_heads: without_padding(padding, num_tokens, None)  # noqa: E731
        monkeypatch.setattr(encoder, "without_padding", one)
    else:
        monkeypatch.setattr(unpadded, "_GROUP_COST", request.param)


@pytest.fixture
def batch(dictionary):
    """Sequences of 1 to 13 tokens, `<s> ... </s>` in no order of length, some of them pairs."""
    tokens = small_batch(dictionary, LENGTHS)
    tokens[1, 5:7] = tokens[3, 3:5] = dictionary.eos()
    return tokens


def run(model, tokens):
    """Features of the tokens, and all gradients."""
    real = tokens.ne(1)
    model.zero_grad()
    features = model(tokens, features_only=True, num_tokens=int(real.sum()))[0][real]
    weights = torch.randn(features.shape, generator=torch.Generator().manual_seed(2)).to(features)
    (features * weights).sum().backward()
    return [features, *(p.grad for p in model.parameters() if p.grad is not None)]


def assert_close(got, want, dtype):
    assert len(got) == len(want)
    for one, other in zip(got, want):
        bound = BOUNDS[dtype] * (other.double().norm() + other.numel() ** 0.5)
        assert (one.double() - other.double()).norm() <= bound


@pytest.mark.parametrize(("name", "fields"), VARIANTS)
def test_outputs_and_gradients_are_those_of_the_padded_batch(build, batch, groups, name, fields):
    got, want = (run(build(name, unpad=unpad, **NO_DROPOUT, **fields).train(), batch) for unpad in ("always", "never"))
    assert_close(got, want, torch.float32)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64, "autocast"])
@pytest.mark.parametrize("name", ["tupe_tiny", "linformer_tiny"])
def test_types(build, batch, name, dtype):
    autocast = dtype == "autocast"
    models = (build(name, unpad=u, **NO_DROPOUT).to(torch.float32 if autocast else dtype) for u in ("always", "never"))
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        got, want = (run(model.train(), batch)[: 1 if autocast else None] for model in models)
    assert_close(got, want, torch.bfloat16 if autocast else dtype)


@pytest.mark.parametrize("lengths", [(13,), (1, 1), (13, 1), (24, 2)])
@torch.no_grad()
def test_the_batch_decides_nothing(build, dictionary, groups, lengths):
    """Each sequence by itself, in another order, and in the longest batch that there is."""
    model, tokens = build("tupe_tiny", unpad="always"), small_batch(dictionary, lengths)
    together, turned = (model(x, features_only=True)[0] for x in (tokens, tokens.flip(0)))
    torch.testing.assert_close(turned.flip(0), together)
    for row, length in enumerate(lengths):
        alone = model(tokens[row : row + 1, :length], features_only=True)[0][0]
        torch.testing.assert_close(together[row, :length], alone, rtol=1e-5, atol=1e-5)


@torch.no_grad()
def test_padding_between_tokens_stays_where_it_is(build, batch):
    """It hides a key, as in the padded batch: nothing moves."""
    batch[1, 4] = 1
    got, want = (build("tupe_tiny", unpad=unpad)(batch, features_only=True)[0] for unpad in ("always", "never"))
    torch.testing.assert_close(got[batch.ne(1)], want[batch.ne(1)], rtol=1e-5, atol=1e-5)


def slots(model, tokens, **options):
    """Tokens that the first feed-forward part computes."""
    seen = []
    layer = model.encoder.sentence_encoder.layers[0]
    hook = layer.final_layer_norm.register_forward_hook(lambda module, given, out: seen.append(out.shape[:-1].numel()))
    model(tokens, **options)
    hook.remove()
    return seen[0]


def test_tokens_alone_are_computed(build, batch):
    num_tokens = int(batch.ne(1).sum())
    assert slots(build("tupe_tiny"), batch, num_tokens=num_tokens) == num_tokens
    assert slots(build("tupe_tiny", unpad="always"), batch) == num_tokens
    assert slots(build("tupe_tiny"), batch) == batch.numel()  # who does not say so gets the features at padding
    assert slots(build("tupe_tiny", unpad="never"), batch, num_tokens=num_tokens) == batch.numel()
    nearly = batch[:2, :].clone()
    nearly[0, 8:] = 5
    nearly[0, 12] = 1
    assert slots(build("tupe_tiny"), nearly, num_tokens=25) == nearly.numel()  # one of 26: not worth it
    assert slots(build("tupe_tiny", unpad="always"), nearly) == nearly.numel() - 1


@pytest.mark.parametrize(
    "make", [packed, lambda *given: without_padding(*given, None), lambda *given: without_padding(*given, 12_000)]
)
@pytest.mark.parametrize("known", [True, False])
def test_places(batch, make, known):
    """Tokens are put where they were, each sequence in one group, and a group's padding is padding."""
    padding = batch.eq(1)
    tokens = make(padding, int(padding.logical_not().sum()) if known else None)
    side_by_side = tokens.unpad(batch)
    assert 1 not in side_by_side and torch.equal(tokens.pad(side_by_side), batch.masked_fill(padding, 0))
    assert sorted(row for group in tokens.groups for row in group.rows.tolist()) == [*range(len(LENGTHS))]
    for group, part in zip(tokens.groups, tokens.split(side_by_side)):
        if group.cu_seqlens is None:
            length = group.shape[1]
            assert torch.equal(group.pad(part), batch[group.rows, :length].masked_fill(padding[group.rows, :length], 0))
        else:
            assert group.cu_seqlens.diff().tolist() == sorted(LENGTHS, reverse=True)
            starts = zip(group.rows.tolist(), part.tensor_split(group.cu_seqlens[1:-1].long()))
            assert all(torch.equal(own, batch[row, : len(own)]) for row, own in starts)
    assert Tokens(padding).unpad(batch) is Tokens(padding).pad(batch) is batch


@given(st.lists(st.integers(1, 9), min_size=1, max_size=7), st.integers(0, 200))
def test_the_padding_of_a_group_costs_no_more_than_another_group(lengths, group_cost):
    lengths = sorted(lengths, reverse=True)
    starts = [*itertools.accumulate(group_sizes(lengths, group_cost), initial=0)]
    assert starts[-1] == len(lengths)
    for start, end in itertools.pairwise(starts):
        padded = [
            lengths[start] ** 2 * (size - start) - sum(x**2 for x in lengths[start:size]) for size in (end, end + 1)
        ]
        assert padded[0] <= group_cost and (end == len(lengths) or padded[1] > group_cost)
