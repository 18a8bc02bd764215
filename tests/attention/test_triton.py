"""The Triton kernels against the float64 reference: compiled where there is a GPU, else by Triton's interpreter."""

import functools
import inspect
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
import torch
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

from tests.models.largest_tensor import LargestTensor
from tupe.attention import biased_attention
from tupe.attention.reference import reference
from tupe.attention.verification.bounds import BOUNDS
from tupe.position import StructuredBias

ON_GPU = torch.cuda.is_available()
DEVICE = "cuda" if ON_GPU else "cpu"


@contextmanager
def interpreter():
    """Without a GPU, Triton interprets what is imported and called in this context; elsewhere it must not."""
    with pytest.MonkeyPatch.context() as patch:
        if not ON_GPU:
            patch.setenv("TRITON_INTERPRET", "1")
        yield


with interpreter():
    triton = pytest.importorskip("triton")
    import triton.language as tl

    from tupe.attention.kernels import tiles
    from tupe.attention.kernels.dropout import philox
    from tupe.attention.kernels.launch import Inputs, Launcher, Options, with_aligned_rows
    from tupe.attention.triton_attention import triton_attention

    if not ON_GPU:
        from triton.runtime import interpreter as interpreting

        @functools.cache
        def replaced(place):
            return [name for name, member in inspect.getmembers(place) if tl.core.is_builtin(member)]

        # For each function that a kernel calls, the interpreter looks through Triton's language for what it replaces,
        # which took a quarter of the time: the names are the same each time.
        members = {"getmembers": lambda place: [(name, getattr(place, name)) for name in replaced(place)]}
        interpreting.inspect = SimpleNamespace(**{**vars(inspect), **members})

    @triton.jit
    def philox_kernel(KEY, COUNTER, OUT):
        key, first, second = tl.load(KEY), tl.load(COUNTER), tl.load(COUNTER + 1)
        c0, c1 = philox(key.to(tl.uint32), first.to(tl.uint32), second.to(tl.uint32))
        tl.store(OUT, c0.to(tl.int64))
        tl.store(OUT + 1, c1.to(tl.int64))


@pytest.fixture(autouse=True, scope="module")
def interpret():
    with interpreter():
        yield


LONGEST = 300 if ON_GPU else 40
SCALE = 0.2


def normal(*shape, seed, dtype=torch.float32, spread=1.0):
    """The same numbers on every device, in float64, but exact in `dtype`."""
    generator = torch.Generator().manual_seed(seed)
    return (torch.randn(*shape, generator=generator, dtype=torch.float64) * spread).to(dtype).double().to(DEVICE)


def qkv(batch, heads, t_q, t_k, width, *, seed, **options):
    lengths = enumerate((t_q, t_k, t_k))
    return [normal(batch, heads, length, width, seed=seed + i, **options) for i, length in lengths]


def gradients(attend, leaves, d_out, dtype):
    """The output of `attend` on copies of `leaves` in `dtype`, and the gradient of each for `d_out`."""
    leaves = [leaf.to(dtype, copy=True).requires_grad_() for leaf in leaves]
    out = attend(*leaves)
    out.backward(d_out.to(dtype))
    return [out.detach(), *(leaf.grad for leaf in leaves)]


def exact(query, key, value, bias, mask, causal=False, dropped=None, scale=SCALE):
    """The equation in float64; `dropped` multiplies the weights, as dropout does."""
    logits = scale * query @ key.transpose(-2, -1)
    if bias is not None:
        logits = logits + bias
    if causal:
        future = torch.ones_like(logits[0, 0], dtype=torch.bool).triu(1 + key.shape[2] - query.shape[2])
        logits = logits.masked_fill(future, -torch.inf)
    if mask is not None:
        logits = logits.masked_fill(mask[:, None, None, :], -torch.inf)
    hidden = logits.isneginf().all(-1, keepdim=True)
    weights = logits.masked_fill(hidden, 0).softmax(-1) * ~hidden
    return (weights if dropped is None else weights * dropped) @ value


def assert_close(got, want, dtype, terms=0):
    """Each tensor within the bound; `terms`: of how many numbers a small tensor holds the sums."""
    for i, (g, w) in enumerate(zip(got, want)):
        assert torch.isfinite(g).all(), i
        error = (g.double() - w).norm()
        assert error <= BOUNDS[dtype] * (w.norm() + max(w.numel(), terms) ** 0.5), (i, (error / w.norm()).item())


def padding(kind, batch, t_k):
    """`none`: no mask; `right`: all sequences but the first are shorter; `one`, `all`: the last has one key or none."""
    if kind == "none":
        return None
    mask = torch.zeros(batch, t_k, dtype=torch.bool, device=DEVICE)
    for b in range(1, batch):
        mask[b, 1 + (7 * b) % t_k :] = True
    if kind != "right":
        mask[-1] = True
        mask[-1, -1] = kind == "all"
    return mask


lengths = st.integers(1, LONGEST)
DTYPES = (torch.float32, torch.float16, torch.bfloat16)
# On a GPU each example compiles kernels, and shrinking one takes hundreds.
several = settings(
    max_examples=16 if ON_GPU else 5, deadline=None, phases=(Phase.explicit, Phase.generate) if ON_GPU else tuple(Phase)
)


@pytest.mark.parametrize("dtype", DTYPES)
@several
@given(
    batch=st.integers(1, 3),
    heads=st.integers(1, 2),
    t_q=lengths,
    t_k=lengths,
    width=st.sampled_from([16, 20, 48, 64, 80, 128]),
    kind=st.sampled_from(["none", "right", "one", "all"]),
    bias=st.sampled_from([None, "heads", "one", "keys", "sequences"]),
    causal=st.booleans(),
    seed=st.integers(0, 1000),
)
@example(batch=1, heads=2, t_q=12, t_k=1, width=80, kind="none", bias="keys", causal=False, seed=1)  # a sum that is 0
def test_dense_bias(dtype, batch, heads, t_q, t_k, width, kind, bias, causal, seed):
    causal = causal and t_q <= t_k
    leaves = qkv(batch, heads, t_q, t_k, width, dtype=dtype, seed=seed)
    shape = {
        "heads": (heads, t_q, t_k),
        "one": (1, t_q, t_k),
        "keys": (t_k,),
        "sequences": (batch, heads, t_q, t_k),
    }
    if bias is not None:
        leaves.append(normal(*shape[bias], dtype=dtype, seed=seed + 3))
    mask = padding(kind, batch, t_k)
    d_out = normal(batch, heads, t_q, width, dtype=dtype, seed=seed + 4)

    def kernels(q, k, v, b=None):
        return triton_attention(q, k, v, b, mask, SCALE, 0.0, causal)

    want = gradients(lambda q, k, v, b=None: exact(q, k, v, b, mask, causal), leaves, d_out, torch.float64)
    got = gradients(kernels, leaves, d_out, dtype)
    assert_close(got[:4], want[:4], dtype)
    assert_close(got[4:], want[4:], dtype, terms=batch * heads * t_q * t_k)


@pytest.mark.parametrize("dtype", DTYPES)
@several
@given(
    batch=st.integers(1, 3),
    heads=st.integers(1, 2),
    t_q=lengths,
    t_k=lengths,
    width=st.sampled_from([16, 64]),
    factor_width=st.sampled_from([1, 16, 24]),
    parts=st.sampled_from(["factors", "relative", "both", "segments"]),
    reset=st.booleans(),
    segments=st.booleans(),
    kind=st.sampled_from(["none", "right", "one", "all"]),
    causal=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_structured_bias(
    dtype, batch, heads, t_q, t_k, width, factor_width, parts, reset, segments, kind, causal, seed
):
    segments = segments or parts == "segments"
    t_k = t_q if segments else t_k
    causal = causal and t_q <= t_k
    leaves = qkv(batch, heads, t_q, t_k, width, dtype=dtype, seed=seed)
    shapes = {"query": (heads, t_q, factor_width), "key": (heads, t_k, factor_width)}
    shapes = shapes if parts in ("factors", "both") else {}
    shapes.update({"relative": (heads, t_q + t_k - 1)} if parts in ("relative", "both") else {})
    shapes.update({"theta": (2, heads)} if reset and shapes else {})
    shapes.update({"segment": (heads, 2, 2)} if segments else {})
    second = torch.arange(t_q, device=DEVICE) >= t_q // 2 + torch.arange(batch, device=DEVICE)[:, None]  # the sentence
    sides = {"segments": second} if segments else {}
    leaves += [normal(*shape, dtype=dtype, seed=seed + 3 + i) for i, shape in enumerate(shapes.values())]
    mask = padding(kind, batch, t_k)
    d_out = normal(batch, heads, t_q, width, dtype=dtype, seed=seed + 9)

    def kernels(q, k, v, *values):
        return triton_attention(q, k, v, StructuredBias(**dict(zip(shapes, values)), **sides), mask, SCALE, 0.0, causal)

    def built(q, k, v, *values):
        return exact(q, k, v, StructuredBias(**dict(zip(shapes, values)), **sides).dense(t_k), mask, causal)

    want = gradients(built, leaves, d_out, torch.float64)
    got = gradients(kernels, leaves, d_out, dtype)
    assert_close(got[:4], want[:4], dtype)
    assert_close(got[4:], want[4:], dtype, terms=batch * heads * t_q * t_k)
    if "theta" in shapes:
        assert not got[4 + list(shapes).index("theta")][0].any()  # theta_1 is constant over a softmax


def test_backward_under_autocast():
    """Gradients that are summed by PyTorch are as without it."""
    leaves = [*qkv(2, 2, 40, 40, 16, seed=0), normal(2, 2, 2, seed=3)]
    segments = torch.arange(40, device=DEVICE).expand(2, -1) >= 25
    d_out = normal(2, 2, 40, 16, seed=4)

    def grads(autocast):
        query, key, value, segment = (leaf.float().requires_grad_() for leaf in leaves)
        out = triton_attention(query, key, value, StructuredBias(segment=segment, segments=segments), None, SCALE, 0.0)
        with torch.autocast(DEVICE, torch.bfloat16, enabled=autocast):
            return torch.autograd.grad(out, (query, key, value, segment), d_out.float())

    assert all(map(torch.equal, grads(False), grads(True)))


@pytest.mark.parametrize("dtype", DTYPES)
def test_large_logits(dtype):
    """Logits of a hundred, at which a wrong order of exponential and sum overflows; the weights are nearly one-hot."""
    leaves = qkv(2, 2, 19, 35, 32, dtype=dtype, seed=0, spread=4.0)
    leaves.append(normal(2, 19, 35, dtype=dtype, seed=5, spread=40.0))
    d_out = normal(2, 2, 19, 32, dtype=dtype, seed=6)
    got = gradients(lambda q, k, v, b: triton_attention(q, k, v, b, None, SCALE, 0.0), leaves, d_out, dtype)
    want = gradients(lambda q, k, v, b: exact(q, k, v, b, None), leaves, d_out, torch.float64)
    assert all(tensor.isfinite().all() for tensor in got)
    # A one-hot row's gradient is what rounding leaves of a difference: bfloat16's has no digits to compare.
    count = 1 if dtype == torch.bfloat16 else len(got)
    assert_close(got[:count], want[:count], dtype)


@pytest.mark.parametrize("padded", [False, True])
def test_keys_hidden_by_the_bias(padded):
    """A bias of -inf hides; a row of which it, or it and padding, leave nothing is zero, not NaN, and has no gradient.

    The padding is not at the end, where no program looks.
    """
    leaves = [*qkv(1, 1, 20, 40, 16, seed=0), normal(1, 20, 40, seed=3)]
    leaves[3][0, :, :35] = -torch.inf  # a whole tile of keys, and a row
    leaves[3][0, 4, 38 if padded else 0 :] = -torch.inf
    mask = None
    if padded:
        mask = torch.zeros(1, 40, dtype=torch.bool, device=DEVICE)
        mask[0, 3] = mask[0, 35:38] = True
    d_out = normal(1, 1, 20, 16, seed=6)
    got = gradients(lambda q, k, v, b: triton_attention(q, k, v, b, mask, SCALE, 0.0), leaves, d_out, torch.float32)
    assert not got[0][0, 0, 4].any()
    want = gradients(lambda q, k, v, b: exact(q, k, v, b, mask), leaves, d_out, torch.float64)
    assert_close(got, want, torch.float32)


@pytest.mark.parametrize("structured", [False, True])
def test_keys_beyond_the_last_are_not_visited(structured):
    """Padding at the end may hold what would make a NaN; padding elsewhere hides as ever."""
    length = LONGEST  # more than a tile
    mask = torch.zeros(2, length, dtype=torch.bool, device=DEVICE)
    mask[0, 2:] = mask[1, :9] = mask[1, 11:30] = True
    leaves = qkv(2, 1, length, length, 16, seed=0)
    shapes = [(1, length, 16), (1, length, 16), (1, 2 * length - 1)] if structured else [(1, length, length)]
    leaves += [normal(*shape, seed=3 + i) for i, shape in enumerate(shapes)]
    d_out = normal(2, 1, length, 16, seed=9)

    def kernels(q, k, v, *bias):
        return triton_attention(q, k, v, StructuredBias(*bias) if structured else bias[0], mask, SCALE, 0.0)

    def built(q, k, v, *bias):
        return exact(q, k, v, StructuredBias(*bias).dense(length) if structured else bias[0], mask)

    want = gradients(built, leaves, d_out, torch.float64)
    for leaf in leaves[1:3]:
        leaf[0, :, -1] = torch.nan
    got = gradients(kernels, leaves, d_out, torch.float32)
    assert_close(got, want, torch.float32, terms=length**2)


@pytest.mark.parametrize(
    ("key", "counter", "rounds_7"),
    [(0, (0, 0), (0x257A3673, 0xCD26BE2A))],  # the authors' test vector, Random123 kat_vectors
)
def test_philox(key, counter, rounds_7):
    out = torch.zeros(2, dtype=torch.int64, device=DEVICE)
    philox_kernel[(1,)](torch.tensor([key], device=DEVICE), torch.tensor(counter, device=DEVICE), out)
    assert tuple(out.tolist()) == rounds_7


def weights_after_dropout(batch, heads, t_q, t_k, p, seed):
    """Equal weights after dropout, times `t_k`: 0, or `1 / (1 - p)`."""
    query = torch.zeros(batch, heads, t_q, t_k, device=DEVICE)
    value = torch.eye(t_k, device=DEVICE).expand(batch, heads, -1, -1)
    torch.manual_seed(seed)
    return triton_attention(query, torch.zeros_like(value), value, None, None, 1.0, p) * t_k


@pytest.mark.parametrize("p", [0.1, 0.5])
def test_dropout_rate_scale_and_independence(p):
    weights = weights_after_dropout(4, 3, 64, 64, p, seed=0)
    kept = weights > 0
    torch.testing.assert_close(weights[kept], torch.full_like(weights[kept], 1 / (1 - p)), rtol=1e-4, atol=0)
    trials, spread = kept.numel(), (p * (1 - p)) ** 0.5
    assert abs(kept.double().mean().item() - (1 - p)) < 4 * spread / trials**0.5
    # Neighbours in every direction, and the four weights of one random call, know nothing of each other.
    centred = (kept.double() - (1 - p)) / spread
    for axis, step in [(0, 1), (1, 1), (2, 1), (2, 8), (3, 1), (3, 8), (3, 16)]:
        correlation = (centred * centred.roll(step, axis)).mean().item()
        assert abs(correlation) < 5 / trials**0.5, (axis, step)


def test_dropout_follows_the_generator():
    one, again, other = (weights_after_dropout(1, 2, 33, 40, 0.3, seed) for seed in (1, 1, 2))
    assert torch.equal(one, again)
    assert not torch.equal(one, other)


def test_dropout_of_everything_is_zero():
    assert not weights_after_dropout(1, 1, 17, 20, 1.0, seed=0).any()
    leaves = [*qkv(1, 1, 17, 20, 16, seed=0), normal(1, 17, 20, seed=4)]

    def kernels(q, k, v, bias):
        return triton_attention(q, k, v, bias, None, SCALE, 1.0)

    for result in gradients(kernels, leaves, normal(1, 1, 17, 16, seed=9), torch.float32):
        assert torch.equal(result, torch.zeros_like(result))


@pytest.mark.parametrize("structured", [False, True])
def test_dropout_is_the_same_backward(structured):
    """With the mask that an identity for values shows, the reference's outputs and gradients are the kernels'."""
    batch, heads, t_q, t_k, p = 2, 2, 37, 40, 0.25
    dropped = weights_after_dropout(batch, heads, t_q, t_k, p, seed=3).double()
    leaves = qkv(batch, heads, t_q, t_k, 32, seed=0)
    shapes = [(heads, t_q, 16), (heads, t_k, 16), (heads, t_q + t_k - 1)] if structured else [(heads, t_q, t_k)]
    leaves += [normal(*shape, seed=4 + i) for i, shape in enumerate(shapes)]
    d_out = normal(batch, heads, t_q, 32, seed=9)

    def kernels(q, k, v, *bias):
        torch.manual_seed(3)
        return triton_attention(q, k, v, StructuredBias(*bias) if structured else bias[0], None, SCALE, p)

    def built(q, k, v, *bias):
        bias = StructuredBias(*bias).dense(t_k) if structured else bias[0]
        return exact(q, k, v, bias, None, dropped=dropped)

    want = gradients(built, leaves, d_out, torch.float64)
    assert_close(gradients(kernels, leaves, d_out, torch.float32), want, torch.float32)


@pytest.mark.parametrize("structured", [False, True])
def test_two_runs_have_the_same_bits(structured):
    leaves = qkv(3, 1, 40, 40, 16, seed=0)
    shapes = [(1, 40, 16), (1, 40, 16), (1, 79), (2, 1)] if structured else [(1, 40, 40)]
    leaves += [normal(*shape, seed=4 + i) for i, shape in enumerate(shapes)]
    d_out = normal(3, 1, 40, 16, seed=9)

    def kernels(q, k, v, *bias):
        torch.manual_seed(0)
        return triton_attention(q, k, v, StructuredBias(*bias) if structured else bias[0], None, SCALE, 0.1)

    one, two = (gradients(kernels, leaves, d_out, torch.float32) for _ in range(2))
    assert all(map(torch.equal, one, two))


@pytest.mark.parametrize("kind", ["none", "all", "scattered"])
@pytest.mark.parametrize("bias", ["dense", "parts", "side by side"])
def test_masks_of_the_last_tile_alone(monkeypatch, kind, bias):
    """`MASK_LAST` gives the same bits: a tile without hidden keys has nothing to look for."""
    heads, length, lengths = 1, 40, (40, 33, 1)
    mask = padding("right" if kind == "scattered" else kind, 3, length)
    if kind == "scattered":
        mask[0, 3] = mask[1, :2] = mask[2, 0] = True
    starts = torch.tensor([0, *lengths], device=DEVICE).cumsum(0) if bias == "side by side" else None
    leaves = qkv(3, heads, length, length, 16, seed=0)
    shapes = [(heads, length, length)] if bias != "parts" else [(heads, length, 16)] * 2 + [(heads, 2 * length - 1)]
    if starts is not None:
        leaves = [torch.cat([x[b, :, :n] for b, n in enumerate(lengths)], 1)[None] for x in leaves]
        mask = None if mask is None else torch.cat([mask[b, :n] for b, n in enumerate(lengths)])[None]
    leaves += [normal(*shape, seed=4 + i) for i, shape in enumerate(shapes)]
    d_out = normal(*leaves[0].shape, seed=9)

    def kernels(q, k, v, *bias):
        torch.manual_seed(0)
        bias = StructuredBias(*bias) if len(bias) > 1 else bias[0]
        return triton_attention(q, k, v, bias, mask, SCALE, 0.1, False, starts, 0 if starts is None else length)

    results = []
    for last in (False, True):
        monkeypatch.setitem(tiles.VARIANTS, "MASK_LAST", last)
        tiles.choose_tile.cache_clear()
        results.append(gradients(kernels, leaves, d_out, torch.float32))
    tiles.choose_tile.cache_clear()
    assert all(map(torch.equal, *results))


def largest(batch, heads, length, *bias_shapes):
    """Elements of the largest tensor of a forward and backward pass."""
    leaves = [*qkv(batch, heads, length, length, 16, seed=0)]
    leaves += [normal(*shape, seed=3 + i) for i, shape in enumerate(bias_shapes)]

    def kernels(q, k, v, *bias):
        bias = StructuredBias(*bias) if len(bias) > 1 else bias[0]
        return triton_attention(q, k, v, bias, None, SCALE, 0.1)

    with LargestTensor() as tensors:
        gradients(kernels, leaves, torch.ones_like(leaves[0]), torch.float32)
    return tensors.elements


def test_dense_bias_has_no_gradient_for_each_sequence():
    batch, length = (16, 512) if ON_GPU else (3, 64)  # tiles enough, so that they need not cut the whole batch
    assert largest(batch, 1, length, (1, length, length)) < batch * length**2


def test_parts_take_memory_linear_in_the_length():
    heads, length = (8, 4096) if ON_GPU else (1, 64)
    one, two = (
        largest(1, heads, t, (heads, t, 16), (heads, t, 16), (heads, 2 * t - 1), (2, heads))
        for t in (length, 2 * length)
    )
    assert two <= 2.01 * one


def test_grids_of_long_sequences():
    """CUDA's grids are at most 65535 long on all axes but the first."""
    grids = []

    class Recorder(Launcher):
        def run(self, kernel, grid, tile, **arguments):
            grids.append(grid)

    length = 1 << 16
    query, bias = (torch.empty(1, 1, length, n, device="meta") for n in (16, length))
    launcher = Recorder(Inputs(query, query, query, bias), Options(SCALE, 0.0, causal=False))
    out, lse = launcher.forward()
    launcher.backward(out, lse, out, Inputs(True, True, True, True))
    assert len(grids) == 4
    assert all(max(grid[1:]) < 1 << 16 for grid in grids)


def test_strides():
    """Heads cut from one product, as the layers do, and a bias in any order of memory."""
    product = normal(2, 21, 3, 2, 16, seed=0).float()
    views = product.permute(2, 0, 3, 1, 4)
    bias = normal(2, 21, 21, seed=1).float()
    out = triton_attention(*views, bias, None, SCALE, 0.0)
    assert out.transpose(1, 2).is_contiguous()  # so the heads join without a copy
    for other in (bias.permute(1, 2, 0).contiguous().permute(2, 0, 1), bias.mT.contiguous().mT):
        assert torch.equal(out, triton_attention(*views.contiguous(), other, None, SCALE, 0.0))


@pytest.mark.parametrize(
    "cut",
    [lambda b: b, lambda b: b[..., 10:], lambda b: b[..., :20], lambda b: b.mT, lambda b: b[..., :9].clone()],
)
def test_rows_of_a_dense_bias_are_read_within_its_memory(cut):
    bias = cut(torch.randn(1, 2, 32, 32))
    rows = with_aligned_rows(bias)
    assert torch.equal(rows, bias)
    last = rows.storage_offset() + sum((n - 1) * s for n, s in zip(rows.shape[:-1], rows.stride()[:-1]))
    assert last + -(-rows.shape[-1] // 16) * 16 <= rows.untyped_storage().nbytes() // 4
    assert rows.stride(-2) % 16 == rows.storage_offset() % 16 == 0


@pytest.mark.parametrize("structured", [False, True])
def test_compiled_without_a_break(structured):
    leaves = qkv(1, 2, 20, 20, 16, seed=0)
    shapes = [(2, 20, 16), (2, 20, 16), (2, 39), (2, 2)] if structured else [(2, 20, 20)]
    leaves += [normal(*shape, seed=4 + i) for i, shape in enumerate(shapes)]
    d_out = normal(1, 2, 20, 16, seed=9)
    mask = padding("right", 1, 20)

    def attend(q, k, v, *bias):
        return triton_attention(q, k, v, StructuredBias(*bias) if structured else bias[0], mask, SCALE, 0.0)

    compiled = torch.compile(attend, fullgraph=True, backend="aot_eager")
    one, two = (gradients(f, leaves, d_out, torch.float32) for f in (attend, compiled))
    assert all(map(torch.equal, one, two))


@pytest.mark.skipif(not ON_GPU, reason="needs a GPU")
def test_chosen_on_a_gpu():
    query, key, value = (t.half() for t in qkv(2, 2, 33, 33, 32, seed=0))
    bias = normal(2, 33, 33, seed=4).half()
    out = biased_attention(query, key, value, bias, scale=SCALE)
    assert torch.equal(out, triton_attention(query, key, value, bias, None, SCALE, 0.0))
    assert_close([out], [reference(*(t.double() for t in (query, key, value, bias)), None, SCALE, 0.0)], torch.float16)
