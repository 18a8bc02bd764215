"""FlexAttention gives the features of `reference`; on a CPU it has no backward pass."""

import pytest
import torch

from tupe.attention import biased_attention, packed_attention
from tupe.position import Terms

B, H, T, D, SCALE = 2, 2, 24, 16, 0.2
LENGTHS = (24, 9)
REAL = torch.arange(T) < torch.tensor(LENGTHS)[:, None]

pytestmark = pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")


def normal(*shape, seed):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


QUERY, KEY, VALUE = (normal(B, H, T, D, seed=seed) for seed in range(3))
PARTS = Terms(
    length=T,
    query=normal(H, T, 8, seed=3),
    key=normal(H, T, 8, seed=4),
    relative=normal(H, 2 * T - 1, seed=5),
    theta=normal(2, H, seed=6),
    segment=normal(H, 2, 2, seed=7),
    segments=torch.arange(T) >= torch.tensor([[5], [4]]),
)
BIASES = {
    "none": None,
    "dense": normal(H, T, T, seed=8),
    "of each sequence": normal(B, 1, T, T, seed=9),
    "all parts": PARTS,
    "distances": Terms(T, relative=PARTS.relative, theta=PARTS.theta),
    "factors": Terms(T, 0, PARTS.query, PARTS.key),
}


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("kind", BIASES)
@torch.no_grad()
def test_is_the_reference(kind, causal):
    options = {"key_padding_mask": ~REAL, "scale": SCALE, "causal": causal}
    got, want = (
        biased_attention(QUERY, KEY, VALUE, BIASES[kind], **options, backend=backend)
        for backend in ("flex", "reference")
    )
    torch.testing.assert_close(got, want, rtol=0, atol=3e-6)


@pytest.mark.parametrize("kind", ["of each sequence", "all parts"])
@torch.no_grad()
def test_packed_sequences(kind):
    bias = BIASES[kind]
    want = biased_attention(QUERY, KEY, VALUE, bias, key_padding_mask=~REAL, scale=SCALE, backend="reference")
    if kind == "all parts":
        bias = bias._replace(segments=bias.segments[REAL])
    tokens = (x.transpose(1, 2)[REAL] for x in (QUERY, KEY, VALUE))
    starts = torch.tensor([0, *LENGTHS]).cumsum(0)
    got = packed_attention(*tokens, bias, cu_seqlens=starts, max_length=T, scale=SCALE, backend="flex")
    torch.testing.assert_close(got, want.transpose(1, 2)[REAL], rtol=0, atol=3e-6)


def test_dropout_is_refused():
    with pytest.raises(ValueError, match="Set attention_dropout=0"):
        biased_attention(QUERY, KEY, VALUE, scale=SCALE, dropout_p=0.1, training=True, backend="flex")
