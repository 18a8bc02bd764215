"""A bias in factors as wider heads is the same attention, forward and backward."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tupe.attention import biased_attention
from tupe.attention.kernels.check import BOUNDS
from tupe.position import Terms


def parts(heads, t_q, t_k, rank, reset, segments, batch, seed):
    """Query, key, value, and the learnt parts of a bias; what is left out is None."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    of_words = [normal(batch, heads, t, 8) for t in (t_q, t_k, t_k)]
    factors = [normal(heads, t_q, rank), normal(heads, t_k, rank)] if rank else [None, None]
    theta = normal(2, heads) if reset and rank else None
    segment = normal(heads, 2, 2) if segments else None
    which = torch.rand(batch, t_q, generator=generator) < 0.5 if segments else None
    return [*of_words, *factors, theta, segment], which


def run(tensors, which, dtype, backend, **options):
    leaves = [x if x is None else x.to(dtype, copy=True).requires_grad_() for x in tensors]
    query, key, value, pos_q, pos_k, theta, segment = leaves
    bias = Terms(query.shape[2], 0, pos_q, pos_k, None, theta, segment, which)
    out = biased_attention(query, key, value, bias, scale=16**-0.5, backend=backend, **options)
    weight = torch.linspace(-1, 1, out.numel(), dtype=torch.float64).view_as(out)
    (out.double() * weight).sum().backward()
    return [out.detach(), *(leaf.grad for leaf in leaves if leaf is not None)]


@settings(max_examples=25, deadline=None)
@given(
    dtype=st.sampled_from(list(BOUNDS)),
    heads=st.integers(1, 3),
    t_q=st.integers(1, 9),
    more=st.integers(0, 4),
    rank=st.sampled_from([0, 1, 7, 16]),
    reset=st.booleans(),
    segments=st.booleans(),
    causal=st.booleans(),
    padded=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_agrees_with_float64(dtype, heads, t_q, more, rank, reset, segments, causal, padded, seed):
    segments = segments or not rank
    t_k = t_q if segments else t_q + more  # segments are of the positions
    tensors, which = parts(heads, t_q, t_k, rank, reset, segments, 2, seed)
    tensors = [x if x is None else x.to(dtype).double() for x in tensors]
    padding = torch.arange(t_k) >= torch.tensor([[t_k], [max(1, t_k - 2)]]) if padded else None
    options = {"causal": causal, "key_padding_mask": padding}
    exact = run(tensors, which, torch.float64, "reference", **options)
    for got, want in zip(run(tensors, which, dtype, "factors", **options), exact):
        assert (got.double() - want).norm() <= BOUNDS[dtype] * (want.norm() + got.numel() ** 0.5)
