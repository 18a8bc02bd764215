"""How the memory of a training step grows with the length: dense bias, structured bias, no bias.

    python benchmarks/memory.py                  # measured on this CPU, float32
    python benchmarks/memory.py --count          # counted for a GPU, bfloat16: no GPU is needed

A step is forward and backward of a stack of layers, one sequence, without embeddings, a language-model head, dropout
and the optimizer. Printed is what it needs at most beyond the parameters and their gradients, in MiB.

Measured: the largest resident size of a process of its own for each cell, less what it was before. On a CPU `dense` is
TUPE-R's bias in plain PyTorch (backend `auto`), and `structured` TUPE-A's as wider heads (backend `factors`), since
TUPE-R's is made dense there.

Counted: every tensor that PyTorch or the Triton kernels' launcher allocates, on the device `meta`, where nothing is
computed, from its allocation to its end; the kernels fill their partial sums for the processors of an H100. All three
are by the kernels, TUPE-R's bias. The allocator's rounding and fragments are not in it.
"""

import argparse
import multiprocessing
import resource
import sys
import weakref
from unittest import mock

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from tupe.attention import biased_attention
from tupe.cli.main import status
from tupe.position import BucketedRelative, PositionBias, Reset, UntiedAbsolute

WIDTH, HEADS = 768, 12
BIASES = ("none", "dense", "structured")
PROCESSORS = 132  # of an H100


class Layer(nn.Module):
    """An encoder layer of `base`, without dropout."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.fc1, self.fc2 = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(2))

    def forward(self, x: Tensor, attend) -> Tensor:
        heads = self.qkv(x).unflatten(-1, (3 * HEADS, -1)).transpose(1, 2)  # (B, 3 H, T, d_h)
        x = self.norms[0](x + self.out(attend(*heads.chunk(3, dim=1)).transpose(1, 2).flatten(2)))
        return self.norms[1](x + self.fc2(nn.functional.gelu(self.fc1(x))))


class Stack(nn.Module):
    """Layers that share one position bias."""

    def __init__(self, layers: int, length: int, bias: str, counted: bool) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Layer() for _ in range(layers))
        self.bias, self.counted = bias, counted
        relative = BucketedRelative(HEADS) if counted or bias == "dense" else None
        absolute, reset = UntiedAbsolute(length, WIDTH, HEADS), Reset(HEADS, WIDTH)
        self.position = None if bias == "none" else PositionBias(absolute, relative, reset)

    def attend(self, bias):
        """Return attention with this bias, by the kernels or by the backend of the CPU."""
        scale = (2 * WIDTH // HEADS) ** -0.5
        if self.counted:
            from tupe.attention.triton_attention import triton_attention

            return lambda query, key, value: triton_attention(query, key, value, bias, None, scale, 0.0)
        backend = "factors" if self.bias == "structured" else "auto"
        return lambda *qkv: biased_attention(*qkv, bias, scale=scale, training=True, backend=backend)

    def forward(self, x: Tensor) -> Tensor:
        bias = None
        if self.position is not None:
            bias = self.position(x.shape[1], x.dtype, structured=self.bias == "structured").bias
        for layer in self.layers:
            x = layer(x, self.attend(bias))
        return x


class Live(TorchDispatchMode):
    """Counts the bytes of the tensors that are alive, at most `peak`, besides those that were `there` before."""

    def __init__(self, there: list[Tensor]) -> None:
        super().__init__()
        self.now = self.peak = 0
        self.known = {tensor.untyped_storage()._cdata for tensor in there}

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        out = function(*args, **(kwargs or {}))
        for tensor in tree_leaves(out):
            if isinstance(tensor, Tensor):
                self.add(tensor.untyped_storage())
        return out

    def add(self, storage: torch.UntypedStorage) -> None:
        if storage._cdata not in self.known:
            self.known.add(storage._cdata)
            self.now += storage.nbytes()
            self.peak = max(self.peak, self.now)
            weakref.finalize(storage, self.remove, storage._cdata, storage.nbytes())

    def remove(self, key: int, size: int) -> None:
        self.known.discard(key)
        self.now -= size


def count(layers: int, length: int, bias: str) -> float:
    """Count the MiB of a step on a GPU."""
    from tupe.attention.kernels import launch, tiles

    with torch.device("meta"):
        stack = Stack(layers, length, bias, counted=True).to(torch.bfloat16)
        x = torch.empty(1, length, WIDTH, dtype=torch.bfloat16)
    for parameter in stack.parameters():
        parameter.grad = torch.empty_like(parameter)
    there = [x, *(tensor for parameter in stack.parameters() for tensor in (parameter, parameter.grad))]
    with (
        mock.patch.object(launch.Launcher, "run", lambda *args, **kwargs: None),  # there is nothing to compute
        mock.patch.object(launch, "multiprocessors", return_value=PROCESSORS),
        mock.patch.object(tiles, "memory", return_value="large"),
        mock.patch.object(torch, "is_autocast_enabled", return_value=False),  # it knows no `meta`
        Live(there) as live,
    ):
        stack(x).sum().backward()
    tiles.choose_tile.cache_clear()
    return live.peak / 2**20


def resident() -> int:
    """Return the resident bytes of this process."""
    with open("/proc/self/statm") as pages:
        return int(pages.read().split()[1]) * resource.getpagesize()


def measure(layers: int, length: int, bias: str) -> float:
    """Measure the MiB of a step on this CPU; in a process of its own: its largest size cannot be set back."""
    torch.manual_seed(0)
    stack = Stack(layers, length, bias, counted=False)
    for parameter in stack.parameters():
        parameter.grad = torch.zeros_like(parameter)
    stack(torch.randn(1, 32, WIDTH)).sum().backward()  # loads what a first step loads
    x, before = torch.randn(1, length, WIDTH), resident()
    stack(x).sum().backward()
    return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before) / 2**20


def in_a_process(layers: int, length: int, bias: str) -> float:
    """Return what `measure` does, in a fork of this process, which has computed nothing."""
    with multiprocessing.get_context("fork").Pool(1) as pool:
        return pool.apply(measure, (layers, length, bias))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lengths", type=int, nargs="+", default=[128, 256, 512, 1024, 2048, 4096])
    parser.add_argument("--layers", type=int, default=2, help="default: %(default)s")
    parser.add_argument("--count", action="store_true", help="for a GPU, which need not be there")
    args = parser.parse_args()
    print(f"| length, {args.layers} layers | {' | '.join(BIASES)} |")
    print("|---:|---:|---:|---:|")
    for length in args.lengths:
        row = []
        for bias in BIASES:
            row.append((count if args.count else in_a_process)(args.layers, length, bias))
        print(f"| {length:,} | {' | '.join(f'{value:,.0f}' for value in row)} |", flush=True)


if __name__ == "__main__":
    sys.exit(status(main))
