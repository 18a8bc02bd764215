"""DeBERTa's disentangled attention: Transformers' module, rows of distances."""

import pytest
import torch
from torch import nn

from tupe.models.layer import SelfAttention
from tupe.models.unpadded import Group
from tupe.position import DisentangledRelative, PositionBias, RelativeEmbeddings
from tupe.position.deberta import log_bucket_boundaries

HEADS, WIDTH = 3, 12
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
