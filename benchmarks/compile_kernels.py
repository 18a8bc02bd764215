"""Compiles the Triton kernels for given GPUs, without one, and shows what they need.

    python benchmarks/compile_kernels.py                      # every tile of the table, for all kinds of GPUs
    python benchmarks/compile_kernels.py --quick              # bf16 and heads of 64, for Hopper
    python benchmarks/compile_kernels.py --tile 128 64 8 3    # the same with another tile
    python benchmarks/compile_kernels.py --quick --ptxas PATH   # the machine code by that ptxas

Ends with 1 if a kernel needs more shared memory than a block of that GPU may have, if Hopper's wgmma instructions
wait for each other, which ptxas calls serialized, if its machine code writes a register that a wgmma still reads
(`sass.py`; `without waits` is the control), or if it has atomics. Spills are bytes a thread: some dozens matter little,
hundreds do. `copies` are asynchronous ones of 16 bytes, `small copies` of fewer; `loop` is the number of instructions
of the inner loop, of a warp. Without --ptxas the machine code is by every ptxas that is there: Triton's own, or that of
TRITON_PTXAS_PATH, and for Hopper that of the extra `gpu`.
"""

import argparse
import itertools
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import sass
import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.backends.nvidia.driver import CudaDriver
from triton.runtime.driver import driver

from tupe.attention.kernels import launch, tiles
from tupe.attention.verification import compiler

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
BIN = Path(triton.__file__).parent / "backends" / "nvidia" / "bin"


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


def kernels(dtype: torch.dtype, width: int, bias: str, length: int = 500) -> list[tuple]:
    """Return `(kernel, grid, tile, arguments)` of every launch, with padding and dropout, for 32 sequences, 12 heads.

    `packed` is the dense bias of sequences side by side; a float32 bias is what autocast leaves to 16-bit queries.
    """
    launches = []

    class Recorder(launch.Launcher):
        def run(self, kernel, grid, tile, **arguments):
            known = {**self.arguments, **arguments, "EVEN_KEYS": False}
            launches.append((kernel, grid, tile, {name: known[name] for name in kernel.arg_names if name in known}))

    def empty(*shape: int, dtype: torch.dtype = dtype) -> torch.Tensor:
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


def report(kernel, capability: int, ptxas: Path) -> dict[str, object]:
    """Compile a kernel's PTX by `ptxas`; return its registers, spills, shared memory and inner loop."""
    with tempfile.TemporaryDirectory() as folder:
        source, cubin = Path(folder) / "kernel.ptx", Path(folder) / "kernel.cubin"
        source.write_text(kernel.asm["ptx"])
        name = f"sm_{capability}" + "a" * (capability >= 90)
        command = [str(ptxas), "-v", f"--gpu-name={name}", str(source), "-o", str(cubin)]
        said = subprocess.run(command, capture_output=True, text=True, check=True).stderr
        code, loops = sass.parse(sass.disassemble(cubin.read_bytes(), BIN / "nvdisasm"))
    return {
        "registers": int(re.search(r"Used (\d+) registers", said)[1]),
        "spill": int(re.search(r"(\d+) bytes spill stores", said)[1]),
        "shared": kernel.metadata.shared,
        "wgmma": kernel.asm["ptx"].count("wgmma.mma_async"),
        "in registers": sum(bool(instruction.reads_as_operand()) for instruction in code),
        "early writes": len(sass.early_writes(code, loops)),
        "without waits": len(sass.early_writes(code, loops, waits=False)),
        "atomics": len(re.findall(r"\b(?:atom|red)\.", kernel.asm["ptx"])),
        "copies": len(re.findall(r"cp\.async\.cg[^\n]*, 0x10|cp\.async\.cg[^\n]*, 16", kernel.asm["ptx"])),
        "small copies": len(re.findall(r"cp\.async\.ca", kernel.asm["ptx"])),
        "loop": sum(sass.inner_loop(code, loops).values()),
        "serialized": "serialized" in said,
    }


def compilers(capability: int, named: Path | None) -> list[Path]:
    """Return the ptxas to compile with: the one named, or Triton's, and for Hopper that of the extra `gpu` too."""
    if named is not None:
        return [named]
    wheel = compiler.wheel_ptxas() if capability == 90 else None
    return [path for path in dict.fromkeys((compiler.ptxas(divmod(capability, 10)), wheel)) if path is not None]


def check(capability: int, tile: list[int] | None, named: Path | None, **case) -> bool:
    """Print a line for each kernel and compiler; tell whether all fit and none writes too early."""
    name, column, limit = GPUS[capability]
    driver.set_active(Target(capability))
    tiles.memory = lambda device: column
    tiles.choose_tile.cache_clear()
    launch.multiprocessors = lambda device: 132
    print(f"{name}: {case}")
    fits = True
    for kernel, grid, blocks, arguments in kernels(**case):
        if tile is not None:
            blocks = {**blocks, **dict(zip(("BLOCK_M", "BLOCK_N", "num_warps", "num_stages"), tile))}
        compiled = kernel.warmup(grid=grid, **arguments, **blocks)
        for ptxas in compilers(capability, named):
            needs = report(compiled, capability, ptxas)
            threads, weights = 32 * blocks["num_warps"], blocks["BLOCK_M"] * blocks["BLOCK_N"]
            needs["a weight"] = round(needs["loop"] * threads / weights, 1)
            if needs["in registers"] and not needs["without waits"]:  # the same code made wrong on purpose
                sys.exit("error: the check of early writes does not see them where every wait is taken away.")
            fits &= needs["shared"] <= limit and not (needs["serialized"] or needs["early writes"] or needs["atomics"])
            said = "  ".join(f"{key} {value:>6}" for key, value in needs.items())
            version = compiler.ptxas_version(ptxas)
            print(f"  {kernel.__name__:<24} {tuple(blocks.values())[:4]!s:<16} ptxas {version:<9} {said}", flush=True)
    return fits


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="only bf16 and heads of 64")
    parser.add_argument("--tile", type=int, nargs=4, metavar=("M", "N", "WARPS", "STAGES"), help="implies --quick")
    parser.add_argument("--variants", nargs="+", default=[], choices=tiles.VARIANTS, help="of tiles.VARIANTS: turn on")
    parser.add_argument("--ptxas", type=Path, help="default: every one that is there")
    parser.add_argument("--gpus", type=int, nargs="+", choices=GPUS, help="default: all; Hopper with --quick")
    args = parser.parse_args()
    if args.ptxas is not None and compiler.ptxas_version(args.ptxas) is None:
        sys.exit(f"error: {args.ptxas} does not run: name a ptxas.")
    tiles.VARIANTS.update(dict.fromkeys(args.variants, True))
    gpus, dtypes, widths = args.gpus or GPUS, (torch.bfloat16, torch.float32), (64, 128)
    if args.quick or args.tile:
        gpus, dtypes, widths = args.gpus or (90,), (torch.bfloat16,), (64,)
    cases = itertools.product(gpus, dtypes, widths, KINDS)
    results = [
        check(gpu, args.tile, args.ptxas, dtype=dtype, width=width, bias=bias)
        for gpu, dtype, width, bias in cases
        if not (dtype == torch.float32 and "float32" in bias)
    ]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
