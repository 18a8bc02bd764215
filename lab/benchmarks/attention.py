"""Time attention with a learned bias that the batch shares, by each backend, and without a bias, as the floor.

    python lab/benchmarks/attention.py --output results                                 # a GPU, bf16
    python lab/benchmarks/attention.py --dropout 0.1 --output results
    python lab/benchmarks/attention.py --check                                          # errors, and not times
    OMP_NUM_THREADS=1 python lab/benchmarks/attention.py --cases 2x128 --rounds 5       # to try it on a CPU

The rivals take turns, in alternating order. A figure is the median over the rounds. A ratio is taken within each round,
over the first floor, and given with its quartiles. The floors are FlashAttention 2 and cuDNN without a bias, so
they do not compute the same function as the others. `memory` is the peak of PyTorch in a step, beyond the inputs. On a
GPU each case ends with the verdict of the rule for the Triton kernels (docs/dev/kernels.md).
"""

import argparse
import functools
import itertools
import sys
from argparse import Namespace
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F
from measured import compare, machine, parse, reason, report
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from tupe.attention import biased_attention
from tupe.attention.kernels.check import errors
from tupe.position import Terms

#: Floor -> PyTorch's kernel without a bias.
FLOORS = {"flash": SDPBackend.FLASH_ATTENTION, "cudnn": SDPBackend.CUDNN_ATTENTION}
#: Rival -> the backend of `biased_attention`, the form of the bias, and PyTorch's kernel if one is chosen. `parts` are
#: TUPE-A's factors and reset, and `factors` lack the reset.
RIVALS = {
    "sdpa_efficient": ("sdpa", "dense", SDPBackend.EFFICIENT_ATTENTION),
    "sdpa_cudnn": ("sdpa", "dense", SDPBackend.CUDNN_ATTENTION),
    "factors": ("factors", "factors", None),
    "flex_dense": ("flex", "dense", None),
    "flex": ("flex", "parts", None),
    "triton": ("triton", "dense", None),
    "triton_in_parts": ("triton", "parts", None),
    "sdpa": ("sdpa", "dense", None),
    "reference": ("reference", "dense", None),
}
MODES = ("forward", "forward + backward")
#: The Triton kernels are kept in cases where they are at least this many times as fast as the best other backend.
ADVANTAGE = 1.25


def arguments() -> Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    on_gpu = torch.cuda.is_available()
    cases = ["32x512", "32x128", "8x2048", "2x4096"] if on_gpu else ["2x128", "2x512"]
    add("--cases", nargs="+", default=cases, metavar="BxT", help="batch x length (default: %(default)s)")
    add("--rivals", nargs="+", choices=RIVALS, default=list(RIVALS), help="default: all")
    add("--modes", nargs="+", choices=MODES, default=MODES, help="default: all")
    add("--heads", type=int, default=12)
    add("--width", type=int, default=64, help="of a head (default: 64)")
    add("--dropout", type=float, default=0.0)
    add("--check", action="store_true", help="compare output and gradients with float64; exit with 1 if one is far off")
    return parse(parser, rounds=30, warm_up=3, steps=10)


def make_step(rival: str, mode: str, batch: int, length: int, args: Namespace) -> Callable[[], Any]:
    """Return a step on random inputs."""

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, device=args.device, dtype=getattr(torch, args.dtype), requires_grad=mode != MODES[0])

    heads, width, scale = args.heads, args.width, (2 * args.width) ** -0.5
    backend, form, kernel = RIVALS.get(rival, ("", "", FLOORS.get(rival)))
    qkv = [normal(batch, heads, length, width) for _ in range(3)]
    factors = [(heads, length, width)] * 2
    shapes = {"dense": [(heads, length, length)], "factors": factors, "parts": [*factors, (2, heads)]}
    parts = [normal(*shape) for shape in shapes.get(form, ())]
    gradient = normal(batch, heads, length, width).detach()

    def attend() -> Tensor:
        if rival in FLOORS:
            return F.scaled_dot_product_attention(*qkv, dropout_p=args.dropout, scale=scale)
        bias = parts[0]
        if form != "dense":
            bias = Terms(length, 0, parts[0], parts[1], None, *parts[2:])
        options = {"scale": scale, "dropout_p": args.dropout, "training": True, "backend": backend}
        return biased_attention(*qkv, bias, **options)

    def backward() -> tuple[Tensor, ...]:
        return torch.autograd.grad(attend(), [*qkv, *parts], gradient)

    @torch.no_grad()
    def forward() -> Tensor:
        return attend()

    step = forward if mode == "forward" else backward
    return step if kernel is None else sdpa_kernel(kernel)(step)


def cases(args: Namespace) -> Iterator[list[dict[str, Any]]]:
    for case, mode in itertools.product(args.cases, args.modes):
        torch.compiler.reset()  # FlexAttention is compiled for this length, and at most eight times
        batch, length = map(int, case.split("x"))
        makers = {
            rival: functools.partial(make_step, rival, mode, batch, length, args) for rival in (*args.rivals, *FLOORS)
        }
        records = compare({"case": case, "mode": mode}, batch * length, makers, args)
        yield records
        if args.on_gpu and mode == MODES[-1]:  # print it now: a later case may be cut off
            print(f"verdict, {case}, dropout {args.dropout}: {verdict(records)}", flush=True)


def verdict(records: list[dict[str, Any]]) -> str:
    """Return the verdict from one case's records: are the kernels fast enough, compared with the best other backend?"""
    times = {record["rival"]: record["milliseconds"][1] for record in records if "milliseconds" in record}
    ours = [time for rival, time in times.items() if rival.startswith("triton")]
    others = {rival: time for rival, time in times.items() if rival.startswith(("sdpa", "factors", "flex"))}
    if not ours or not others:
        return "no verdict: the kernels or all of the others were not measured"
    best = min(others, key=others.get)
    ratio = others[best] / min(ours)
    return f"{best} takes {ratio:.2f} times as long as the kernels, which {'stay' if ratio >= ADVANTAGE else 'go'}"


def check(args: Namespace) -> bool:
    """Print the largest error of every backend and return whether all are within the bounds of the self-check."""
    print("| backend | type | length | largest error / allowed | of |", 5 * "|---" + "|", sep="\n")
    backends = dict.fromkeys(RIVALS[rival][0] for rival in args.rivals if rival != "reference")
    lengths = [int(case.partition("x")[2]) - 1 for case in args.cases]  # odd where T is even
    fits = True
    for backend, dtype, length in itertools.product(backends, ("bfloat16", "float16")[: 1 + args.on_gpu], lengths):
        torch.compiler.reset()

        def attend(query, key, value, bias, padding, scale, dropout_p, backend=backend):
            options = {"key_padding_mask": padding, "scale": scale, "dropout_p": dropout_p, "training": True}
            return biased_attention(query, key, value, bias, backend=backend, **options)

        try:
            found = errors(attend, torch.device(args.device), getattr(torch, dtype), length, args.width)
            name, error = max(found.items(), key=lambda item: (item[1] != item[1], item[1]))  # NaN is worst
        except Exception as missing:  # the other backends are still checked
            error, name = torch.inf, reason(missing)
        fits &= error <= 1
        print(f"| {backend} | {dtype} | {length} | {error:.3f} | {name} |", flush=True)
    return fits


def main() -> None:
    args = arguments()
    if args.check:
        sys.exit(not check(args))
    about = f"{args.heads} heads of {args.width}, dropout {args.dropout}, {args.rounds} rounds of {args.steps} steps"
    title = f"{machine(args.device)}, {args.dtype}, {about}, {args.clock} time"
    report("attention", title, cases(args), args)


if __name__ == "__main__":
    main()
