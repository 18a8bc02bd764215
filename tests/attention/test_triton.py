"""The Triton kernels against the float64 reference: compiled where there is a GPU, else by Triton's interpreter."""

from contextlib import contextmanager

import numpy as np
import pytest
import torch

from tests.encoder.largest_tensor import LargestTensor
from tupe.attention.kernels import check
from tupe.attention.kernels.check import BOUNDS
from tupe.position import Terms
from tupe.util import UserError

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

    from tupe.attention.kernels.launch import Inputs, Launcher, Options
    from tupe.attention.triton_attention import triton_attention

    if not ON_GPU:
        from triton.runtime.interpreter import interpreter_builder


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


DTYPES = (torch.float32, torch.float16, torch.bfloat16)


FACTORS, DISTANCES = ("query", "key"), ("relative",)
PARTS = (*FACTORS, *DISTANCES, "theta", "segment")


@pytest.mark.parametrize(
    ("dtype", "batch", "heads", "t_q", "t_k", "width", "kind", "bias", "causal"),
    [
        (torch.float32, 3, 2, 37, 40, 20, "right", "heads", False),
        (torch.float32, 2, 1, 19, 35, 16, "none", "sequences", True),
        (torch.float32, 2, 2, 33, 18, 48, "all", "one", False),
        (torch.float32, 1, 2, 12, 1, 80, "none", "keys", False),  # a sum that is 0
        (torch.float32, 2, 1, 1, 40, 16, "one", "none", False),
        (torch.float16, 3, 1, 40, 33, 64, "right", "heads", False),
        (torch.bfloat16, 2, 2, 35, 35, 128, "right", "heads", True),
        (torch.float32, 2, 2, 36, 40, 16, "right", PARTS[:-1], False),
        (torch.float32, 3, 1, 33, 33, 24, "one", PARTS, True),
        (torch.float32, 2, 1, 20, 40, 1, "none", FACTORS, True),
        (torch.float32, 1, 2, 40, 7, 16, "none", (*DISTANCES, "theta"), False),
        (torch.float32, 2, 2, 17, 17, 16, "all", ("segment",), False),
        (torch.float32, 2, 1, 40, 7, 16, "right", "heads", True),  # the first queries see no key
        (torch.float16, 2, 1, 40, 40, 16, "right", (*FACTORS, "theta", "segment"), False),
        (torch.bfloat16, 2, 2, 35, 35, 16, "right", PARTS, False),
    ],
)
def test_agrees_with_float64(dtype, batch, heads, t_q, t_k, width, kind, bias, causal):
    """A dense bias of heads, sequences, ..., or the parts of one, whose factors are as wide as the case says."""
    d_h = width if isinstance(bias, str) else 16
    shapes = {
        "none": (), "heads": (heads, t_q, t_k), "one": (1, t_q, t_k), "keys": (t_k,),
        "sequences": (batch, heads, t_q, t_k), "query": (heads, t_q, width), "key": (heads, t_k, width),
        "relative": (heads, t_q + t_k - 1), "theta": (2, heads), "segment": (heads, 2, 2),
    }  # fmt: skip
    names = [] if bias == "none" else [bias] if isinstance(bias, str) else bias
    second = torch.arange(t_q, device=DEVICE) >= t_q // 2 + torch.arange(batch, device=DEVICE)[:, None]  # the sentence
    leaves = qkv(batch, heads, t_q, t_k, d_h, dtype=dtype, seed=0)
    leaves += [normal(*shapes[name], dtype=dtype, seed=3 + i) for i, name in enumerate(names)]
    mask = padding(kind, batch, t_k)
    d_out = normal(batch, heads, t_q, d_h, dtype=dtype, seed=9)

    def terms(values):
        if isinstance(bias, str):
            return values[0] if values else None
        return Terms(t_q, **dict(zip(names, values)), segments=second if "segment" in names else None)

    def kernels(q, k, v, *values):
        return triton_attention(q, k, v, terms(values), mask, SCALE, 0.0, causal)

    def built(q, k, v, *values):
        made = terms(values)
        return exact(q, k, v, made.bias if isinstance(made, Terms) else made, mask, causal)

    want = gradients(built, leaves, d_out, torch.float64)
    got = gradients(kernels, leaves, d_out, dtype)
    assert_close(got[:4], want[:4], dtype)
    assert_close(got[4:], want[4:], dtype, terms=batch * heads * t_q * t_k)
    if "theta" in names:
        assert not got[4 + names.index("theta")][0].any()  # theta_1 is constant over a softmax


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
    # Neighbors in every direction, and the four weights of one random call, know nothing of each other.
    centred = (kept.double() - (1 - p)) / spread
    for axis, step in [(0, 1), (1, 1), (2, 1), (2, 8), (3, 1), (3, 8), (3, 16)]:
        correlation = (centred * centred.roll(step, axis)).mean().item()
        assert abs(correlation) < 5 / trials**0.5, (axis, step)


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
        return triton_attention(q, k, v, Terms(t_q, 0, *bias) if structured else bias[0], None, SCALE, p)

    def built(q, k, v, *bias):
        bias = Terms(t_q, 0, *bias).bias if structured else bias[0]
        return exact(q, k, v, bias, None, dropped=dropped)

    want = gradients(built, leaves, d_out, torch.float64)
    assert_close(gradients(kernels, leaves, d_out, torch.float32), want, torch.float32)


def largest(batch, heads, length, *bias_shapes):
    """Elements of the largest tensor of a forward and backward pass."""
    leaves = [*qkv(batch, heads, length, length, 16, seed=0)]
    leaves += [normal(*shape, seed=3 + i) for i, shape in enumerate(bias_shapes)]

    def kernels(q, k, v, *bias):
        bias = Terms(length, 0, *bias) if len(bias) > 1 else bias[0]
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


def test_queries_and_keys_wider_than_values():
    """PoPE's are twice as wide."""
    query, key, value = qkv(2, 2, 11, 11, 16, seed=0)
    leaves, d_out = (query, key, value[..., :8]), normal(2, 2, 11, 8, seed=3)
    want = gradients(lambda *x: exact(*x, None, None), leaves, d_out, torch.float64)
    got = gradients(lambda *x: triton_attention(*x, None, None, SCALE, 0.0), leaves, d_out, torch.float32)
    assert_close(got, want, torch.float32)


@pytest.mark.parametrize("structured", [False, True])
def test_compiled_without_a_break(structured):
    leaves = qkv(1, 2, 20, 20, 16, seed=0)
    shapes = [(2, 20, 16), (2, 20, 16), (2, 39), (2, 2)] if structured else [(2, 20, 20)]
    leaves += [normal(*shape, seed=4 + i) for i, shape in enumerate(shapes)]
    d_out = normal(1, 2, 20, 16, seed=9)
    mask = padding("right", 1, 20)

    def attend(q, k, v, *bias):
        return triton_attention(q, k, v, Terms(20, 0, *bias) if structured else bias[0], mask, SCALE, 0.0)

    compiled = torch.compile(attend, fullgraph=True, backend="aot_eager")
    one, two = (gradients(f, leaves, d_out, torch.float32) for f in (attend, compiled))
    assert all(map(torch.equal, one, two))


def test_the_self_check():
    found = check.errors(triton_attention, torch.device(DEVICE), torch.float32, LONGEST, 16)
    assert len(found) == 20 and max(found.values()) < 1

    def wrong(query, key, value, bias, *others):
        return triton_attention(query, key, 0.9 * value, bias, *others)

    found = check.errors(wrong, torch.device(DEVICE), torch.float32, LONGEST, 16)
    assert min(found["dense bias, output"], found["structured bias, gradient of bias 2"]) > 1


def test_wrong_kernels_are_refused_once_per_process(monkeypatch, caplog):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (9, 0))
    monkeypatch.delenv("TRITON_PTXAS_PATH", raising=False)
    device, asked = torch.device("cuda", 7), []
    monkeypatch.setattr(check, "errors", lambda *_: asked.append(1) or {"dense bias, output": float("nan")})
    with caplog.at_level("INFO"), pytest.raises(UserError, match="wrong on this GPU: the dense bias, output has nan"):
        check.self_check(device, torch.float16)
    assert "TRITON_PTXAS_PATH to the ptxas of CUDA 13.3" in caplog.text
    monkeypatch.setattr(check, "errors", lambda *_: asked.append(1) or {"dense bias, output": 0.1})
    for _ in range(2):
        check.self_check(device, torch.float16)
    assert len(asked) == 2


def memory(tensor):
    """The first address of a tensor's memory and the one behind it; a bias has room at the end of its rows."""
    storage = tensor.untyped_storage()
    return storage.data_ptr(), storage.data_ptr() + storage.nbytes()


@pytest.fixture
def touched(monkeypatch):
    """The kernels that ran; an access beside the tensors that a kernel was given ends it with an error."""
    kernels = []
    run_kernel = Launcher.run

    def run(self, kernel, grid, tile, **rows):
        tensors = [x for x in {**self.arguments, **rows}.values() if isinstance(x, torch.Tensor) and x.numel()]
        starts, ends = np.array([memory(tensor) for tensor in tensors], dtype=np.uint64).T
        kernels.append(kernel.__name__)

        def watched(access):
            def call(pointers, *others):
                mask = others[0 if access.__name__ == "create_masked_load" else 1].data
                first = np.broadcast_to(pointers.data, mask.shape)[mask][:, None]
                size = pointers.get_element_ty().primitive_bitwidth // 8
                assert ((first >= starts) & (first + np.uint64(size) <= ends)).any(1).all(), "beside the tensors"
                return access(pointers, *others)

            return call

        with pytest.MonkeyPatch.context() as patch:
            for name in ("create_masked_load", "create_masked_store"):
                patch.setattr(interpreter_builder, name, watched(getattr(interpreter_builder, name)))
            run_kernel(self, kernel, grid, tile, **rows)

    monkeypatch.setattr(Launcher, "run", run)
    return kernels


@pytest.mark.skipif(ON_GPU, reason="Triton's interpreter is watched")
@pytest.mark.parametrize("length", [1, 35])
def test_nothing_beside_the_tensors_is_touched(touched, length):
    check.errors(triton_attention, torch.device(DEVICE), torch.float16, length, 20)
    common = ["forward_kernel", "query_gradient_kernel", "key_gradient_kernel"]
    assert touched == [*common, "bias_gradient_kernel", *common, *common]
