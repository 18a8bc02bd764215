"""DeBERTa's disentangled attention: loops over its equation, Transformers' module, rows of distances."""

import math

import pytest
import torch
from torch import nn

from tupe.models.layer import SelfAttention
from tupe.models.unpadded import Group
from tupe.position import DisentangledRelative, PositionBias, RelativeEmbeddings
from tupe.position.deberta import log_bucket_boundaries

HEADS, WIDTH = 3, 12
D_H = WIDTH // HEADS
#: Maximum distance and buckets.
EXTENTS = {"clipped": (4, 0), "buckets": (9, 6)}


def attention(extent="clipped", seed=0):
    """A layer's attention and the terms that it takes, in float64, with values that show."""
    torch.manual_seed(seed)
    layer = SelfAttention(WIDTH, HEADS, 3, 0.0, "reference", relative=DisentangledRelative()).double()
    embeddings = RelativeEmbeddings(WIDTH, *EXTENTS[extent])
    position = PositionBias(embeddings=embeddings).double()
    for parameter in (*layer.parameters(), *position.parameters()):
        nn.init.normal_(parameter, std=0.7)
    return layer, position


def run(layer, position, x, mask=None):
    return layer(x, (position(x.shape[1], x.dtype),), (Group(mask),))


def row(away, extent):
    """The row of `i - j = away`, by the logarithms that Microsoft's code has."""
    most, buckets = EXTENTS[extent]
    far, middle = buckets or most, buckets // 2
    if buckets and abs(away) > middle:
        steps = math.ceil(round(math.log(abs(away) / middle) / math.log((most - 1) / middle) * (middle - 1), 9))
        away = int(math.copysign(middle + steps, away))
    return min(max(away + far, 0), 2 * far - 1)


def by_loops(layer, position, x, extent, lengths):
    """The equation, number by number, of sequences of some lengths."""
    table = position.embeddings
    vectors = table.table.weight
    mean, spread = vectors.mean(1, keepdim=True), vectors.var(1, unbiased=False, keepdim=True)
    vectors = (vectors - mean) / (spread + 1e-5).sqrt() * table.layer_norm.weight + table.layer_norm.bias
    (w_q, w_k, w_v), (b_q, b_k, b_v) = layer.qkv_proj.weight.chunk(3), layer.qkv_proj.bias.chunk(3)
    of_keys, of_queries = vectors @ w_k.t() + b_k, vectors @ w_q.t() + b_q
    out = torch.zeros_like(x)
    for b, length in enumerate(lengths):
        q, k, v = (x[b, :length] @ w.t() + c for w, c in ((w_q, b_q), (w_k, b_k), (w_v, b_v)))
        mixed = []
        for h in range(HEADS):
            c = slice(h * D_H, (h + 1) * D_H)
            logits = []
            for i in range(length):
                for j in range(length):
                    away = row(i - j, extent)
                    logit = q[i, c] @ k[j, c] + q[i, c] @ of_keys[away, c] + k[j, c] @ of_queries[away, c]
                    logits.append(logit / math.sqrt(3 * D_H))
            mixed.append(torch.stack(logits).view(length, length).softmax(1) @ v[:, c])
        out[b, :length] = torch.cat(mixed, 1) @ layer.out_proj.weight.t() + layer.out_proj.bias
    return out


@pytest.mark.parametrize("length", [1, 7, 13])
@pytest.mark.parametrize("extent", EXTENTS)
def test_is_the_equation(extent, length):
    """Values and gradients, at odd lengths, with padding."""
    layer, position = attention(extent)
    x = torch.randn(2, length, WIDTH, dtype=torch.float64, requires_grad=True)
    lengths = length, (length + 1) // 2
    mask = torch.arange(length) >= torch.tensor(lengths).unsqueeze(1)
    got = run(layer, position, x, mask).masked_fill(mask.unsqueeze(-1), 0)
    want = by_loops(layer, position, x, extent, lengths)
    torch.testing.assert_close(got, want)
    tensors = [x, *layer.parameters(), *position.parameters()]
    weights = torch.randn_like(want)
    found, wanted = (torch.autograd.grad((out * weights).sum(), tensors) for out in (got, want))
    torch.testing.assert_close(found, wanted)


@pytest.mark.parametrize("extent", EXTENTS)
def test_is_transformers(extent):
    """Like `DisentangledSelfAttention`, whose scale is float32."""
    module = pytest.importorskip("transformers.models.deberta_v2.modeling_deberta_v2")
    most, buckets = EXTENTS[extent]
    config = module.DebertaV2Config(
        hidden_size=WIDTH,
        num_attention_heads=HEADS,
        relative_attention=True,
        pos_att_type=["c2p", "p2c"],
        share_att_key=True,
        position_buckets=buckets or -1,
        max_relative_positions=most,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    layer, position = attention(extent)
    theirs = module.DisentangledSelfAttention(config).double()
    names = ("query_proj", "key_proj", "value_proj")
    for name, weight, bias in zip(names, layer.qkv_proj.weight.chunk(3), layer.qkv_proj.bias.chunk(3)):
        getattr(theirs, name).load_state_dict({"weight": weight, "bias": bias})
    nn.init.eye_(layer.out_proj.weight)
    nn.init.zeros_(layer.out_proj.bias)
    x, length = torch.randn(2, 13, WIDTH, dtype=torch.float64), 13
    mask = torch.arange(length) >= torch.tensor([[13], [8]])
    seen = ~mask[:, None, None] & ~mask[:, None, :, None]
    vectors = position.embeddings.layer_norm(position.embeddings.table.weight)
    with torch.no_grad():
        want = theirs(x, seen, rel_embeddings=vectors)[0]
        got = run(layer, position, x, mask)
    torch.testing.assert_close(got[~mask], want[~mask], rtol=0, atol=1e-6)


@torch.no_grad()
def test_without_vectors_it_is_content():
    """Except for the bias of the queries, which is multiplied by the keys a second time."""
    layer, position = attention()
    plain = SelfAttention(WIDTH, HEADS, 3, 0.0, "reference").double()
    plain.load_state_dict({n: p for n, p in layer.state_dict().items() if "relative" not in n})
    for parameter in position.parameters():
        parameter.zero_()
    x = torch.randn(2, 7, WIDTH, dtype=torch.float64)
    plain.qkv_proj.bias[:WIDTH] *= 2
    torch.testing.assert_close(run(layer, position, x), plain(x, (PositionBias()(7),), (Group(None),)))


@pytest.mark.parametrize(("buckets", "most"), [(4, 4), (6, 9), (8, 512), (32, 128), (256, 512)])
def test_buckets_are_those_of_the_code(buckets, most):
    """`make_log_bucket_position`, whose float32 moves no boundary here, up to twice the maximum distance."""
    module = pytest.importorskip("transformers.models.deberta_v2.modeling_deberta_v2")
    away = torch.arange(-2 * most, 2 * most + 1)
    wanted = module.make_log_bucket_position(away, buckets, most).long() + buckets
    rows = RelativeEmbeddings(2, most, buckets).row(-away)
    assert torch.equal(rows, wanted.clamp(0, 2 * buckets - 1))


def test_boundaries():
    assert log_bucket_boundaries(4, 5) == [1, 2, 3, 5]
    starts = log_bucket_boundaries(256, 512)
    assert starts[:129] == [*range(1, 130)] and starts[-1] == 512 and len(starts) == 256
    assert RelativeEmbeddings(2, 3, 0).row(torch.tensor([9, 3, 2, 0, -2, -3, -9])).tolist() == [0, 0, 1, 3, 5, 5, 5]


@torch.no_grad()
def test_a_shorter_input_takes_the_middle():
    """Of what is kept between evaluations, in the type of the model."""
    position = PositionBias(embeddings=RelativeEmbeddings(WIDTH, 9, 6)).eval()
    whole = position(13).embeddings
    for length in (13, 8, 1):
        assert torch.equal(position(length).embeddings, position.embeddings(length))
        assert torch.equal(position(13).slice(length).embeddings, position.embeddings(length))
    assert whole.shape == (27, WIDTH)
    assert position(5, torch.bfloat16).embeddings.dtype == torch.bfloat16


def test_parameters():
    assert sum(p.numel() for p in RelativeEmbeddings(768, 256, 0).parameters()) == 393_216 + 2 * 768
