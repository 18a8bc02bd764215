"""Compiles the Triton kernels for given GPUs, without one, and shows what they need.

    python lab/benchmarks/compile_kernels.py           # bf16 and heads of 64, for Hopper
    python lab/benchmarks/compile_kernels.py 80 89     # for the A100 and the RTX 40

Ends with 1 if a kernel needs more shared memory than a block of that GPU may have, or if Hopper's wgmma instructions
wait for each other, which ptxas calls serialized. Spills are bytes per thread: some dozens matter little, hundreds do.
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from triton.backends.compiler import GPUTarget
from triton.backends.nvidia.compiler import get_ptxas
from triton.backends.nvidia.driver import CudaDriver
from triton.runtime.driver import driver

from tupe.attention.kernels import launch, tiles

#: capability: (name, column of tiles.TILES, bytes of shared memory that a block may have)
GPUS = {
    90: ("H100, H200", "large", 227 << 10),
    80: ("A100", "small", 163 << 10),
    86: ("RTX 30", "small", 99 << 10),
    89: ("RTX 40, L40", "small", 99 << 10),
    100: ("B200", "large", 227 << 10),
    103: ("B300", "large", 227 << 10),
    120: ("RTX 50", "small", 99 << 10),
}
KINDS = ("dense", "packed", "TUPE-R", "DIET-ABS", "dense, float32 bias")  # the third and fourth in parts


class Target(CudaDriver):
    """A GPU that is not there: enough of one for the compiler."""

    def __init__(self, capability: int) -> None:
        self.capability = capability

    def get_current_target(self) -> GPUTarget:
        return GPUTarget("cuda", self.capability, 32)

    def get_current_device(self) -> int:
        return self.capability  # kernels are kept by device

    def get_current_stream(self, device: int) -> int:
        return 0


def kernels(bias: str, width: int = 64, length: int = 500) -> list[tuple]:
    """Return `(kernel, grid, tile, arguments)` of every launch, with padding and dropout, for 32 sequences, 12 heads.

    `packed` is the dense bias of sequences side by side. Autocast leaves a bias in float32.
    """
    launches = []

    class Recorder(launch.Launcher):
        def run(self, kernel, grid, tile, **arguments):
            known = {**self.arguments, **arguments, "EVEN_KEYS": False}
            launches.append((kernel, grid, tile, {name: known[name] for name in kernel.arg_names if name in known}))

    def empty(*shape: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
        return torch.empty(shape, dtype=dtype, device="meta")

    packed, options = {}, launch.Options(width**-0.5, 0.1, causal=False)
    batch, tokens = 32, length
    if bias == "packed":
        packed = {"starts": empty(batch + 1, dtype=torch.int32)}
        batch, tokens, options = 1, batch * length, options._replace(max_length=length)
    query, key, value = empty(batch, tokens, 3, 12, width).permute(2, 0, 3, 1, 4)
    factors = {"pos_q": empty(12, length, width), "pos_k": empty(12, length, width)}
    parts = {
        "dense": {"bias": empty(1, 12, length, length)},
        "packed": {"bias": empty(1, 12, length, length)},
        "dense, float32 bias": {"bias": empty(1, 12, length, length, dtype=torch.float32)},
        "TUPE-R": {**factors, "relative": empty(12, 2 * length - 1), "theta": empty(12)},
        "DIET-ABS": {**factors, "segment": empty(12, 2, 2), "segments": empty(batch, tokens, dtype=torch.uint8)},
    }[bias]
    inputs = launch.Inputs(
        query,
        key,
        value,
        **parts,
        padding=empty(batch, tokens, dtype=torch.uint8),
        seed=empty(1, dtype=torch.int64),
        **packed,
    )
    recorder = Recorder(inputs, options)
    out, lse = recorder.forward()
    recorder.backward(out, lse, out, launch.Inputs(*(tensor is not None for tensor in inputs)))
    return launches


def report(kernel, capability: int) -> dict[str, object]:
    """Compile a kernel's PTX by Triton's ptxas; return its registers, spills and shared memory."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "kernel.ptx"
        source.write_text(kernel.asm["ptx"])
        name = f"sm_{capability}" + "a" * (capability >= 90)
        command = [get_ptxas(capability).path, "-v", f"--gpu-name={name}", str(source), "-o", f"{folder}/kernel.cubin"]
        said = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    return {
        "registers": int(re.search(r"Used (\d+) registers", said)[1]),
        "spill": int(re.search(r"(\d+) bytes spill stores", said)[1]),
        "shared": kernel.metadata.shared,
        "serialized": "serialized" in said,
    }


def check(capability: int, bias: str) -> bool:
    """Print a line for each kernel, and return whether all fit."""
    name, column, limit = GPUS[capability]
    driver.set_active(Target(capability))
    tiles.memory = lambda device: column
    tiles.choose_tile.cache_clear()
    launch.multiprocessors = lambda device: 132
    print(f"{name}: {bias}")
    fits = True
    for kernel, grid, blocks, arguments in kernels(bias):
        needs = report(kernel.warmup(grid=grid, **arguments, **blocks), capability)
        fits &= needs["shared"] <= limit and not needs["serialized"]
        said = "  ".join(f"{key} {value:>6}" for key, value in needs.items())
        print(f"  {kernel.__name__:<24} {tuple(blocks.values())!s:<16} {said}", flush=True)
    return fits


if __name__ == "__main__":
    results = [check(gpu, bias) for gpu in map(int, sys.argv[1:] or ["90"]) for bias in KINDS]
    sys.exit(not all(results))
