"""Sequences side by side, without padding: the same outputs and gradients as in a padded batch, and no neighbors."""

import pytest
import torch

from tests.attention.test_triton import (
    DEVICE,
    SCALE,
    assert_close,
    exact,
    gradients,
    interpret,  # noqa: F401
    interpreter,
    normal,
    qkv,
)
from tupe.attention import packed_attention
from tupe.position import Terms

with interpreter():
    from tupe.attention.triton_attention import triton_attention

LENGTHS = (35, 17, 17, 1)  # longer than a tile, in falling order; two are alike
LONGEST = max(LENGTHS)


def side_by_side(lengths):
    """True at the tokens of a padded batch, `(B, T)`, and `cu_seqlens`."""
    lengths = torch.tensor(lengths, device=DEVICE)
    real = torch.arange(LONGEST, device=DEVICE) < lengths[:, None]
    return real, torch.nn.functional.pad(lengths.cumsum(0), (1, 0))


def packed(attend, real, leaves, d_out, dtype):
    """As `gradients` of the padded `leaves`, query, key, value and the bias's, with 0 at padding."""

    def pack(x):
        return x.transpose(1, 2)[real]

    got = gradients(attend, [*map(pack, leaves[:3]), *leaves[3:]], pack(d_out), dtype)
    padded = [torch.zeros_like(leaves[0].transpose(1, 2), dtype=dtype) for _ in range(4)]
    for whole, tokens in zip(padded, got):
        whole[real] = tokens
    return [*(x.transpose(1, 2) for x in padded), *got[4:]]


@pytest.mark.parametrize(
    ("dtype", "lengths", "kind", "causal"),
    [
        (torch.float32, LENGTHS, "dense", False),
        (torch.bfloat16, LENGTHS, "parts", False),
        *((torch.float32, (0, 1, 35, 20), kind, True) for kind in ("dense", "parts")),  # in no order, and an empty one
        (torch.float32, LENGTHS, "sequences", False),
    ],
)
def test_is_the_padded_batch(dtype, lengths, kind, causal):
    batch, heads, width = len(lengths), 2, 20
    real, cu_seqlens = side_by_side(lengths)
    leaves = qkv(batch, heads, LONGEST, LONGEST, width, dtype=dtype, seed=0)
    shapes = {
        "dense": {"bias": (heads, LONGEST, LONGEST)},
        "sequences": {"bias": (batch, 1, LONGEST, LONGEST)},
        "parts": {
            **{"query": (heads, LONGEST, 16), "key": (heads, LONGEST, 16)},
            **{"relative": (heads, 2 * LONGEST - 1), "theta": (2, heads), "segment": (heads, 2, 2)},
        },
    }[kind]
    leaves += [normal(*shape, dtype=dtype, seed=3 + i) for i, shape in enumerate(shapes.values())]
    segments = torch.arange(LONGEST, device=DEVICE) >= torch.arange(5, 5 + batch, device=DEVICE)[:, None]
    d_out = normal(batch, heads, LONGEST, width, dtype=dtype, seed=9) * real[:, None, :, None]

    def bias(values, segments):
        return values[0] if "bias" in shapes else Terms(LONGEST, 0, *values, segments=segments)

    def attend(q, k, v, *values):
        options = {"cu_seqlens": cu_seqlens, "max_length": LONGEST, "scale": SCALE, "causal": causal}
        return packed_attention(q, k, v, bias(values, segments[real]), **options)

    def built(q, k, v, *values):
        made = bias(values, segments)
        made = made.bias if isinstance(made, Terms) else made
        return exact(q, k, v, made, ~real, causal) * real[:, None, :, None]

    want = gradients(built, leaves, d_out, torch.float64)
    got = packed(attend, real, leaves, d_out, dtype)
    assert_close(got[:4], want[:4], dtype)
    assert_close(got[4:], want[4:], dtype, terms=heads * sum(n * n for n in lengths))


def test_dropout_is_that_of_the_padded_batch():
    """Seed, sequence, head, query and key decide, wherever the tokens lie: forward and backward."""
    real, cu_seqlens = side_by_side(LENGTHS)
    leaves = qkv(len(LENGTHS), 1, LONGEST, LONGEST, 16, seed=0)
    leaves.append(normal(1, LONGEST, LONGEST, seed=4))
    d_out = normal(len(LENGTHS), 1, LONGEST, 16, seed=9) * real[:, None, :, None]

    def attend(q, k, v, bias):
        torch.manual_seed(3)
        if q.ndim == 4:
            return triton_attention(q, k, v, bias, ~real, SCALE, 0.3) * real[:, None, :, None]
        options = {"scale": SCALE, "dropout_p": 0.3, "training": True}
        return packed_attention(q, k, v, bias, cu_seqlens=cu_seqlens, max_length=LONGEST, **options)

    want = [x.double() for x in gradients(attend, leaves, d_out, torch.float32)]
    got = packed(attend, real, leaves, d_out, torch.float32)
    assert_close(got, want, torch.float32)
    assert all(map(torch.equal, got, packed(attend, real, leaves, d_out, torch.float32)))


def test_neighbors_do_not_see_each_other(changed=1):
    """Whatever a sequence holds, outputs and gradients of the others keep their bits."""
    _, cu_seqlens = side_by_side(LENGTHS)
    own = slice(*cu_seqlens[changed : changed + 2].tolist())
    leaves = [normal(sum(LENGTHS), 2, 16, seed=seed) for seed in range(3)]
    bias = normal(2, LONGEST, LONGEST, seed=3).float()
    d_out = normal(sum(LENGTHS), 2, 16, seed=4)

    def attend(q, k, v):
        return packed_attention(q, k, v, bias, cu_seqlens=cu_seqlens, max_length=LONGEST, scale=SCALE)

    before = gradients(attend, leaves, d_out, torch.float32)
    for leaf in (*leaves, d_out):
        leaf[own] = torch.nan
    for one, other in zip(before, gradients(attend, leaves, d_out, torch.float32)):
        assert other[own].isnan().all()
        one[own] = other[own] = 0
        assert torch.equal(one, other)


@pytest.fixture
def small():
    """Small models and batches, which need fairseq."""
    pytest.importorskip("fairseq")
    from tests.models import small

    return small


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("tupe_tiny", {"segment": "per_head", "checkpoint_activations": True}),
        ("rope_tiny", {"relative": "kerple", "encoder_layers": 1}),
    ],
)
def test_models_compute_tokens_alone(small, name, fields):
    """Features and gradients of a model whose attention has no padding, and hidden padding between tokens."""
    dictionary = small.small_dictionary()
    tokens = small.small_batch(dictionary, (2, 13, 8, 13)).to(DEVICE)
    tokens[1, 5:7] = dictionary.eos()  # a pair
    tokens[3, 4] = dictionary.pad()
    real, found = tokens.ne(dictionary.pad()), []
    for unpad in ("always", "never"):
        options = {"dropout": 0.0, "attention_dropout": 0.0, "unpad": unpad, "attention_backend": "triton", **fields}
        model = small.small_model(name, dictionary, **options).to(DEVICE).train()
        features = model(tokens, features_only=True, num_tokens=36)[0][real]
        weights = torch.randn(features.shape, generator=torch.Generator().manual_seed(2)).to(DEVICE)
        (features * weights).sum().backward()
        found.append([features, *(p.grad.double() for p in model.parameters() if p.grad is not None)])
    assert_close(found[0], [x.double() for x in found[1]], torch.float32)
