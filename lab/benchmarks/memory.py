"""How the memory of a training step grows with the length: dense bias, structured bias, no bias.

    python lab/benchmarks/memory.py                  # on a GPU if there is one, else on the CPU

A step is forward and backward of a stack of `base`'s attention layers, one sequence. Printed are the MiB that the step
needs at most beyond the parameters: on a GPU what PyTorch allocated, on the CPU the largest resident size of a process
for each cell. `dense` is TUPE-R's bias, and `structured` TUPE-A's factors as wider heads (backend `factors`).
"""

import argparse
import multiprocessing
import resource
import sys

import torch
from torch import nn

from tupe.attention import biased_attention
from tupe.position import BucketedRelative, PositionBias, Reset, UntiedAbsolute

WIDTH, HEADS = 768, 12
BIASES = ("none", "dense", "structured")


def step(length: int, layers: nn.ModuleList, position: PositionBias | None, structured: bool, device: str) -> None:
    x = torch.randn(1, length, WIDTH, device=device)
    bias = None if position is None else position(length, structured=structured).bias
    scale, backend = (2 * WIDTH // HEADS) ** -0.5, "factors" if structured else "auto"
    for qkv, feed_forward in layers:
        query, key, value = qkv(x).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        out = biased_attention(query, key, value, bias, scale=scale, training=True, backend=backend)
        x = x + out.transpose(1, 2).flatten(2)
        x = x + feed_forward(x)
    x.sum().backward()


def measure(length: int, number: int, bias: str, device: str) -> float:
    """Measure the MiB of a step, in a process of its own, as the largest size of a process cannot be set back."""
    feed_forward = [
        nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH)) for _ in range(number)
    ]
    layers = nn.ModuleList(nn.ModuleList([nn.Linear(WIDTH, 3 * WIDTH), ff]) for ff in feed_forward).to(device)
    relative = BucketedRelative(HEADS) if bias == "dense" else None
    position = PositionBias(UntiedAbsolute(length, WIDTH, HEADS), relative, Reset(HEADS, WIDTH)).to(device)
    arguments = (layers, None if bias == "none" else position, bias == "structured", device)
    step(32, *arguments)  # loads what a first step loads, and makes the gradients
    if device == "cuda":
        before = torch.cuda.memory_allocated()
        step(length, *arguments)
        return (torch.cuda.max_memory_allocated() - before) / 2**20
    with open("/proc/self/statm") as pages:
        before = int(pages.read().split()[1]) * resource.getpagesize()
    step(length, *arguments)
    return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before) / 2**20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lengths", type=int, nargs="+", default=[128, 256, 512, 1024, 2048, 4096])
    parser.add_argument("--layers", type=int, default=2, help="default: %(default)s")
    args = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    print(f"| length, {args.layers} layers | {' | '.join(BIASES)} |\n|---:|---:|---:|---:|")
    for length in args.lengths:
        cells = []
        for bias in BIASES:
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                cells.append(f"{pool.apply(measure, (length, args.layers, bias, device)):,.0f}")
        print(f"| {length:,} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    sys.exit(main())
