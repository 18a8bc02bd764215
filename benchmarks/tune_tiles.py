"""Times each Triton kernel with many sizes of tiles on this GPU: what tupe/attention/kernels/tiles.py should say.

    python benchmarks/tune_tiles.py                                   # BERT's case: 32 x 512, bf16, a dense bias
    python benchmarks/tune_tiles.py --batch 1 --length 8192 --structured --dropout 0.1

Prints the fastest five for each kernel, in microseconds, and beside them what the table says now. All are compiled
first, in as many processes as there are cores.
"""

import argparse
import itertools
import multiprocessing
import sys
import time
from argparse import Namespace
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor

import torch
import triton
from measured import device

from tupe.attention.kernels.launch import Inputs, Launcher, Options
from tupe.cli.main import status
from tupe.cores import available_cores

Tile = dict[str, int]


class Tuned(Launcher):
    """A launcher with one tile for all kernels; it can compile without running."""

    candidate: Tile | None = None
    only_compile = False

    def tile(self, kernel: str) -> Tile:
        return super().tile(kernel) | (self.candidate or {})

    def run(self, kernel, grid, tile, **arguments) -> None:
        if not self.only_compile:
            return super().run(kernel, grid, tile, **arguments)
        known = {**self.arguments, **tile, **arguments, "EVEN_KEYS": self.T_k % tile["BLOCK_N"] == 0}
        compile_options = {"num_warps": tile["num_warps"], "num_stages": tile["num_stages"]}
        kernel.warmup(*[known[name] for name in kernel.arg_names], grid=grid, **compile_options)


def arguments() -> Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--heads", type=int, default=12)
    parser.add_argument("--length", type=int, default=512)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--dtype", choices=["float32", "bfloat16", "float16"], default="bfloat16")
    parser.add_argument("--structured", action="store_true", help="a structured bias")
    parser.add_argument("--dropout", type=float, default=0.0)
    parser.add_argument("--rows", type=int, nargs="+", default=[64, 128], help="of a tile to try: queries, and keys")
    parser.add_argument("--warps", type=int, nargs="+", default=[4, 8])
    parser.add_argument("--stages", type=int, nargs="+", default=[2, 3])
    parser.add_argument("--device", type=device, default="cuda")
    return parser.parse_args()


def steps(args: Namespace) -> tuple[Tuned, dict[str, Callable[[], object]]]:
    """Return a launcher, and a function for each of its kernels that runs it."""

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, device=args.device, dtype=getattr(torch, args.dtype))

    batch, heads, length, width = args.batch, args.heads, args.length, args.width
    query, key, value = normal(batch, length, 3, heads, width).permute(2, 0, 3, 1, 4)
    parts = {"bias": normal(1, heads, length, length)}
    if args.structured:
        parts = {name: normal(heads, length, width) for name in ("pos_q", "pos_k")}
        parts.update(relative=normal(heads, 2 * length - 1), theta=normal(heads))
    seed = torch.zeros(1, dtype=torch.int64, device=args.device) if args.dropout else None
    inputs = Inputs(query, key, value, **parts, seed=seed)
    wanted = Inputs(*(tensor is not None for tensor in inputs))
    launcher = Tuned(inputs, Options((2 * width) ** -0.5, args.dropout, causal=False))
    out, lse = torch.zeros_like(query.transpose(1, 2)), torch.zeros(batch, heads, length, device=args.device)
    rows = {"LSE": lse, "D_OUT": normal(batch, length, heads, width), "DELTA": torch.zeros_like(lse)}
    out = out.contiguous()
    found = {
        "forward": launcher.forward,
        "query_gradient": lambda: launcher.query_gradient(out, rows, wanted),
        "key_gradient": lambda: launcher.key_gradient(rows, wanted),
        "bias_gradient": lambda: launcher.bias_gradient(rows),
    }
    if args.structured:
        del found["bias_gradient"]
    return launcher, found


def candidates(args: Namespace) -> list[Tile]:
    names = ("BLOCK_M", "BLOCK_N", "num_warps", "num_stages")
    return [dict(zip(names, tile)) for tile in itertools.product(args.rows, args.rows, args.warps, args.stages)]


def compile_one(case: tuple[Namespace, str, Tile]) -> str | None:
    """Compile a kernel into Triton's cache; return the name of an error, if there was one."""
    args, kernel, tile = case
    launcher, found = steps(args)
    launcher.candidate, launcher.only_compile = tile, True
    try:
        found[kernel]()
    except Exception as error:  # too large a tile, or one that the kernel refuses
        return type(error).__name__
    return None


def microseconds(step: Callable[[], object]) -> float:
    if torch.cuda.is_available():
        return 1000 * triton.testing.do_bench(step, return_mode="median")
    start = time.perf_counter()
    step()
    return 1e6 * (time.perf_counter() - start)


def main() -> None:
    args = arguments()
    launcher, found = steps(args)
    cases = [(args, kernel, tile) for kernel in found for tile in candidates(args)]
    if torch.cuda.is_available():
        spawn = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(available_cores(), spawn) as pool:  # raises where a process dies, which Pool awaits
            refused = list(pool.map(compile_one, cases))
        cases = [case for case, reason in zip(cases, refused) if reason is None]
    for kernel, step in found.items():
        launcher.candidate = None
        table = launcher.tile(kernel)
        print(f"{kernel}: table {tuple(table.values())} {microseconds(step):.0f} us", flush=True)
        times = []
        for _, _, tile in (case for case in cases if case[1] == kernel):
            launcher.candidate = tile
            try:
                times.append((microseconds(step), tuple(tile.values())))
            except Exception as error:  # does not fit this GPU
                print(f"  {tuple(tile.values())} {type(error).__name__}")
        for time_taken, tile in sorted(times)[:5]:
            print(f"  {tile} {time_taken:.0f} us", flush=True)


if __name__ == "__main__":
    sys.exit(status(main))
