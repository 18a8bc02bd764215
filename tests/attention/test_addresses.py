"""What the kernels read and write: nothing beside their tensors, and all of those of more than 2^31 elements.

Such tensors are larger than the machine's memory, which lends only the pages that are touched.
"""

import numpy as np
import pytest
import torch

from tests.attention.test_triton import DEVICE, ON_GPU, interpret, interpreter, normal  # noqa: F401 (a fixture)
from tupe.attention.verification.cases import Case, with_gradients

with interpreter():
    pytest.importorskip("triton")
    from triton.runtime.interpreter import interpreter_builder

    from tupe.attention.kernels.launch import Inputs, Launcher, Options

HEADS, LENGTH, WIDTH = 3, 16, 16
DTYPE = torch.float16
OPTIONS = Options(scale=0.2, dropout_p=0.0, causal=False)
WANTED = Inputs(*[False] * 3, bias=True, **dict.fromkeys(Inputs._fields[4:], False))


def run(inputs, d_out):
    """The output, its log-sum-exp and the gradients of query, key, value and bias."""
    launcher = Launcher(inputs, OPTIONS)
    out, lse = launcher.forward()
    return out, lse, *launcher.backward(out, lse, d_out(out), WANTED)[:4]


def numbers(length=LENGTH, heads=HEADS):
    """Query, key, value and the output's gradient, `(1, H, T, d_h)`, and a bias `(1, H, T, T)`."""
    *rows, d_out = (normal(1, heads, length, WIDTH, seed=seed, dtype=DTYPE).to(DTYPE) for seed in range(4))
    return rows, normal(1, heads, length, length, seed=4, dtype=DTYPE).to(DTYPE), d_out.transpose(1, 2).contiguous()


def far_apart(tensor, dim, stride):
    """`tensor` with `stride` elements from one index of `dim` to the next."""
    strides = [*tensor.stride()]
    strides[dim] = stride
    last = sum((size - 1) * step for size, step in zip(tensor.shape, strides, strict=True))
    try:
        room = torch.empty(last + 1, dtype=tensor.dtype, device=tensor.device)
    except RuntimeError as error:
        pytest.skip(f"this machine does not lend {2 * last / 2**30:.0f} GiB: {error}")
    return room.as_strided(tensor.shape, strides).copy_(tensor)


@pytest.mark.parametrize(
    ("dim", "stride", "length"),
    [(0, 2**30 + 64, LENGTH), (1, 2**30 + 64, LENGTH), (2, 2**24 - 64, 145)],
    ids=["sequence", "head", "token"],
)
def test_inputs_that_lie_far_apart(dim, stride, length):
    """Each stride has 32 bits, the third sequence or head, or the 129th token, needs more."""
    rows, bias, d_out = numbers(length, heads=1 if dim == 2 else HEADS)
    factors = torch.tensor([1.0, -1.0, 0.5][: 3 if dim == 0 else 1], dtype=DTYPE, device=DEVICE).view(-1, 1, 1, 1)
    rows, bias, d_out = [row * factors for row in rows], bias * factors, d_out * factors
    far = [far_apart(row, dim, stride) for row in rows]
    far_bias = far_apart(bias, dim, stride) if dim < 2 else bias
    expected = run(Inputs(*rows, bias=bias), lambda _: d_out)
    found = run(Inputs(*far, bias=far_bias), lambda _: d_out)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0)


@pytest.mark.skipif(ON_GPU, reason="a GPU lends no memory that it does not have")
def test_outputs_beyond_2_31_elements(monkeypatch):
    """Only the programs of the last sequence of a batch of 4 million are run."""
    batch = 2**31 // (HEADS * LENGTH * WIDTH) + 2
    rows, bias, d_out = numbers()
    expected = run(Inputs(*rows, bias=bias), lambda _: d_out)

    run_all, set_dim, set_index = Launcher.run, interpreter_builder.set_grid_dim, interpreter_builder.set_grid_idx
    monkeypatch.setattr(
        Launcher, "run", lambda self, kernel, grid, tile, **rows: run_all(self, kernel, (1, *grid[1:]), tile, **rows)
    )
    monkeypatch.setattr(interpreter_builder, "set_grid_dim", lambda x, *grid: set_dim(batch, *grid))
    monkeypatch.setattr(interpreter_builder, "set_grid_idx", lambda x, *index: set_index(batch - 1, *index))

    def last_alone(out):
        far = torch.empty_like(out)
        far[-1] = d_out[0]
        return far

    expanded = Inputs(*(row.expand(batch, -1, -1, -1) for row in rows), bias=bias.expand(batch, -1, -1, -1))
    found = run(expanded, last_alone)
    for one, other in zip(found, expected, strict=True):
        assert one.numel() > 2**31 or one is found[1]
        torch.testing.assert_close(one[-1], other[0], rtol=0, atol=0)


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
@pytest.mark.parametrize("length", [1, 21, 35])
@pytest.mark.parametrize("packed", [False, True], ids=["padded", "packed"])
@pytest.mark.parametrize("kind", ["dense", "structured"])
def test_nothing_beside_the_tensors_is_touched(touched, kind, packed, length):
    case, device = Case(kind, packed, DTYPE, length, dropout=0.1, width=20), torch.device(DEVICE)
    leaves = {name: leaf.to(DTYPE) for name, leaf in case.leaves(device).items()}
    with_gradients(lambda leaves: case.kernels(leaves, 1), leaves, case.d_out(device).to(DTYPE))
    expected = ["forward_kernel", "query_gradient_kernel", "key_gradient_kernel"]
    assert touched == (expected if kind == "structured" else [*expected, "bias_gradient_kernel"])
