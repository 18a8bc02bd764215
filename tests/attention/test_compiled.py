"""The kernels compile to a GPU's machine code, which needs no GPU, and which Triton's interpreter does not show."""

import sys

import pytest
import torch

from tests.commands import run
from tupe.position import Terms

T = 64
#: Case -> dtype, shape of a dense bias, and arguments of `triton_attention`.
CASES = {
    "dense": (torch.bfloat16, (1, 2, T, T), {}),
    "dense, dropout": (torch.float16, (1, 2, T, T), {"dropout_p": 0.1, "causal": True}),
    "parts": (torch.bfloat16, None, {"key_padding_mask": torch.zeros(2, T, dtype=torch.bool)}),
    "parts, dropout": (torch.float32, None, {"dropout_p": 0.1}),
}


class NoGpu:
    """A driver of Triton that reports an H100."""

    def get_current_target(self):
        from triton.backends.compiler import GPUTarget

        return GPUTarget("cuda", 90, 32)

    def get_current_device(self):
        return 0

    def get_current_stream(self, device=None):
        return 0


def compile_kernels(dtype, dense, options):
    import triton.runtime

    from tupe.attention.kernels import tiles
    from tupe.attention.triton_attention import triton_attention

    def parameter(*shape):
        return torch.empty(shape, dtype=dtype, requires_grad=True)

    compiled = []
    triton.runtime.driver.set_active(NoGpu())
    triton.runtime.JITFunction.__getitem__ = lambda kernel, grid: (
        lambda *arguments, **settings: compiled.append(kernel.warmup(*arguments, grid=grid, **settings).metadata.name)
    )
    tiles.tile_class = lambda device: "large"
    parts = (parameter(2, T, 64), parameter(2, T, 64), parameter(2, 2 * T - 1), parameter(2, 2), parameter(2, 2, 2))
    bias = parameter(*dense) if dense else Terms(T, 0, *parts, torch.zeros(2, T, dtype=torch.bool))
    out = triton_attention(
        *(parameter(2, 2, T, 64) for _ in range(3)), bias, scale=0.1,
        **{"key_padding_mask": None, "dropout_p": 0.0, **options},
    )  # fmt: skip
    out.backward(torch.empty_like(out))
    assert len(compiled) == 3 + bool(dense)


@pytest.mark.parametrize("case", CASES)
def test_every_kernel(case, tmp_path):
    pytest.importorskip("triton")
    run(sys.executable, "-m", "tests.attention.test_compiled", case, TRITON_CACHE_DIR=str(tmp_path))


if __name__ == "__main__":
    compile_kernels(*CASES[sys.argv[1]])
