"""Attention with a learnt bias that the batch shares: ours, its rivals, and the limit, which is without a bias.

    python benchmarks/attention.py --output results                                # a GPU, bf16
    python benchmarks/attention.py --dropout 0.1 --output results
    python benchmarks/attention.py --ragged --output results                       # sequences of many lengths
    OMP_NUM_THREADS=1 python benchmarks/attention.py --cases 2x128 2x256 --rounds 5     # to try it on a CPU

The rivals take turns, in alternating order; a figure is the median over the rounds, a ratio is taken within each round,
over FlashAttention without any bias, and given with its quartiles. Factors as wider heads are TUPE-A's bias, which has
no values by distance. With --ragged lengths are evenly spread from 1 to `T`, and all but the rivals that take tokens
side by side have a padded batch, of which flash is not told what is padding. `same bits` is whether a step repeats its
outcome to the last bit, gradients included. Inputs are several sets used in turn, more than the GPU's cache holds.
`extra memory` is what PyTorch allocated at most in a step, beyond the inputs, the output and the gradients of query,
key and value. `of matrix product` is the operations of the products (2 forward, 5 backward) per second over those of
one large product of the same type. With --graph a step is replayed as a CUDA graph, which hides the time of launching
from Python.
"""

import argparse
import itertools
import json
import math
import statistics
import sys
import traceback
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch._dynamo
import torch._functorch.config
from attention_rivals import DESCRIPTIONS, attention_of, inputs, lengths_of, tokens_of, turn_of, unsuited
from measured import clock_of, machine, parse, quartiles, spread, turns
from torch import Tensor

from tupe.cli.main import status
from tupe.layers import linear

#: mode -> its matrix products, twice
MODES = {"forward": 4, "backward": 10, "forward + backward": 14}
SAYS = {True: "yes", False: "no", None: ""}
BOTH = "forward + backward"


def arguments() -> Namespace:
    on_gpu = torch.cuda.is_available()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    cases = ["32x128", "32x512", "16x1024", "8x2048", "2x4096", "1x8192"] if on_gpu else ["2x128", "2x256", "2x512"]
    add("--cases", nargs="+", default=cases, metavar="BxT", help="batch x length (default: %(default)s)")
    add("--rivals", nargs="+", choices=DESCRIPTIONS, default=list(DESCRIPTIONS), help="default: all")
    add("--modes", nargs="+", choices=MODES, default=list(MODES), help="default: all")
    add("--heads", type=int, default=12)
    add("--width", type=int, default=64, help="of a head (default: 64)")
    add("--dropout", type=float, default=0.0)
    add("--ragged", action="store_true", help="sequences of many lengths")
    add("--milliseconds", type=float, default=20.0, help="of a rival's turn (default: 20)")
    add("--graph", action="store_true", help="replay CUDA graphs")
    add("--output", type=Path, help="folder for attention.json, attention.md and attention.png")
    return parse(parser, rounds=30, warm_up=3)


# ------------------------------------------------------------------------------------------------------------- a step


def same_bits(step: Callable[[], Any], args: Namespace) -> bool | None:
    """Tell whether five steps on the same inputs, with the same random numbers, have one outcome."""
    if args.graph:
        return None

    def outcome() -> list[Tensor]:
        torch.manual_seed(0)
        return [tensor.clone() for tensor in step(first=True)]

    wanted = outcome()
    return all(map(torch.equal, wanted * 4, [tensor for _ in range(4) for tensor in outcome()]))


def make_step(rival: str, mode: str, batch: int, length: int, args: Namespace) -> Callable[..., Any]:
    """Return a step, which returns what it computes on the next set of inputs, or on the first."""
    attend = attention_of(rival, batch, length, args)
    size = args.heads * length * (4 * batch * args.width + length) * args.torch_dtype.itemsize  # with a dense bias
    number = max(1, min(8, (200 << 20) // size)) if args.on_gpu else 1
    sets = [inputs(rival, batch, length, args) for _ in range(number)]
    turn = 0
    outs = [attend(*leaves) for leaves, _ in sets] if mode == "backward" else []

    def step(first: bool = False) -> Any:
        nonlocal turn
        own = 0 if first else turn
        leaves, d_out = sets[own]
        turn = (turn + 1) % len(sets)
        if mode == "forward":
            with torch.no_grad():
                return (attend(*leaves),)
        if mode == "backward":
            return torch.autograd.grad(outs[own], leaves, d_out, retain_graph=True)
        return torch.autograd.grad(attend(*leaves), leaves, d_out)

    if not args.graph:
        return step
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):  # compiles, and fills caches, before the capture
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in sets:
            step()
    graph.steps = len(sets)
    return graph.replay


def seconds(step: Callable[[], None], repeats: int, args: Namespace) -> float:
    """Return the seconds of one step, as the mean of `repeats` in a row."""
    if not args.on_gpu:
        clock = clock_of(args)
        start = clock()
        for _ in range(repeats):
            step()
        return (clock() - start) / repeats
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    for _ in range(repeats):
        step()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) / 1000 / repeats


def extra_memory(step: Callable[[], None], mode: str, tokens: int, args: Namespace) -> int | None:
    """Return the peak bytes of a step, beyond its inputs, the output and the gradients of query, key and value."""
    if not args.on_gpu or args.graph:
        return None
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    step()
    torch.cuda.synchronize()
    one = tokens * args.heads * args.width * args.torch_dtype.itemsize
    return torch.cuda.max_memory_allocated() - before - one * {"forward": 1, "backward": 3, BOTH: 4}[mode]


def product_step(args: Namespace) -> tuple[Callable[[], None], float]:
    """Return a step of one large matrix product, and its operations."""
    size = 8192 if args.on_gpu else 1024
    a, b = (torch.randn(size, size, device=args.device, dtype=args.torch_dtype) for _ in range(2))
    return lambda: linear(a, b), 2.0 * size**3


# ------------------------------------------------------------------------------------------------------ the comparison


def compare(batch: int, length: int, mode: str, args: Namespace) -> list[dict[str, Any]]:
    """Return one record a rival; that of a failure says why."""
    torch._functorch.config.donated_buffer = False  # or compiled code forgets what a second backward needs
    torch._dynamo.reset()  # it recompiles a function only so often, and then runs it as it is
    steps, missing, memory, same = {}, {}, {}, {}
    for rival in args.rivals:
        reason = unsuited(rival, mode, args)
        try:
            if reason is None:
                with turn_of(rival, args):
                    step = make_step(rival, mode, batch, length, args)
                    step()
                    same[rival] = same_bits(step, args)
                    tokens = math.prod(tokens_of(rival, batch, length, args))
                    memory[rival] = extra_memory(step, mode, tokens, args)
                steps[rival] = step
        except Exception as error:  # a rival may lack a kernel, or memory; the others are still compared
            traceback.print_exc()
            reason = f"{type(error).__name__}: {str(error).splitlines()[0][:100] if str(error) else ''}"
        if reason is not None:
            missing[rival] = reason
    product, product_operations = product_step(args)
    steps["product"] = product
    calls = {}
    for name, step in steps.items():
        with turn_of(name, args):
            calls[name] = max(1, round(args.milliseconds / 1000 / seconds(step, 3, args)))
    measured: dict[str, list[float]] = {name: [] for name in steps}
    for number, name in turns(steps, args):
        with turn_of(name, args):
            value = seconds(steps[name], calls[name], args)
        if number >= 0:
            measured[name].append(value / getattr(getattr(steps[name], "__self__", None), "steps", 1))
    rate = product_operations / statistics.median(measured.pop("product"))
    operations = MODES[mode] * args.heads * int(lengths_of(batch, length, args).square().sum()) * args.width
    base = measured.get("flash") or next(iter(measured.values()))
    records = []
    for rival in args.rivals:
        record: dict[str, Any] = {"batch": batch, "length": length, "mode": mode, "rival": rival}
        if rival in missing:
            records.append({**record, "missing": missing[rival]})
            continue
        times = spread(measured[rival])
        record["milliseconds"] = [1000 * value for value in times]
        record["time_over_flash"] = spread([mine / its for mine, its in zip(measured[rival], base)])
        record["extra_bytes"], record["same_bits"] = memory[rival], same[rival]
        record["share_of_product"] = operations / times[1] / rate
        record["product_operations_per_second"] = rate
        records.append(record)
    return records


HEADER = (
    "| batch x length | mode | | ms (quartiles) | time / first's (quartiles) | extra memory | of matrix product "
    "| same bits |\n|---|---|---|---|---|---|---|---|"
)


def row(record: dict[str, Any]) -> str:
    start = f"| {record['batch']} x {record['length']} | {record['mode']} | {DESCRIPTIONS[record['rival']]} |"
    if "missing" in record:
        return f"{start} {record['missing']} | | | | |"
    extra = record["extra_bytes"]
    memory = "" if extra is None else f"{extra / 2**20:,.1f} MiB"
    return (
        f"{start} {quartiles(record['milliseconds'], 3)} | {quartiles(record['time_over_flash'])} | {memory} "
        f"| {100 * record['share_of_product']:.1f}% | {SAYS[record['same_bits']]} |"
    )


def draw(records: list[dict[str, Any]], title: str, path: Path) -> None:
    """Draw the time over FlashAttention's without a bias, and the extra memory, against the length."""
    try:
        import matplotlib
    except ImportError:  # the numbers need PyTorch and Triton alone
        print("no picture: matplotlib is not installed", file=sys.stderr)
        return
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    both = [record for record in records if record["mode"] == BOTH and "missing" not in record]
    panels = [("time", "over FlashAttention without a bias", lambda record: record["time_over_flash"][1])]
    if any(record["extra_bytes"] for record in both):
        panels.append(("extra memory", "MiB", lambda record: (record["extra_bytes"] or 0) / 2**20))
    figure, axes = plt.subplots(1, len(panels), figsize=(5.5 * len(panels), 4), layout="constrained", squeeze=False)
    for axis, (what, unit, value) in zip(axes[0], panels):
        for rival in dict.fromkeys(record["rival"] for record in both):
            mine = [record for record in both if record["rival"] == rival]
            values = [value(record) for record in mine]
            axis.plot([record["length"] for record in mine], values, "o-", label=DESCRIPTIONS[rival])
        axis.set(title=f"{what}, {BOTH}", ylabel=unit, xlabel="tokens of a sequence")
        axis.set_xscale("log", base=2)
        axis.grid(alpha=0.3)
        if what == "time":
            axis.set_ylim(bottom=0)
        else:
            axis.set_yscale("symlog")
    figure.legend(*axes[0][0].get_legend_handles_labels(), loc="outside lower center", ncols=2, frameon=False)
    figure.suptitle(title, fontsize="small")
    figure.savefig(path, dpi=150)


def write(records: list[dict[str, Any]], title: str, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "attention.json").write_text(json.dumps({"run": title, "records": records}, indent=1) + "\n")
    (folder / "attention.md").write_text("\n".join([title, "", HEADER, *map(row, records)]) + "\n")


def main() -> None:
    args = arguments()
    title = (
        f"{machine(args.device)}, {args.dtype}, {args.heads} heads of {args.width}, "
        f"dropout {args.dropout}, {args.rounds} rounds, "
        f"{args.clock} time{', CUDA graphs' if args.graph else ''}{', ragged' if args.ragged else ''}"
    )
    print(title, "", HEADER, sep="\n", flush=True)
    records: list[dict[str, Any]] = []
    failed: list[str] = []
    for case, mode in itertools.product(args.cases, args.modes):
        batch, length = map(int, case.split("x"))
        try:
            measured = compare(batch, length, mode, args)
        except Exception:  # the other cases are still measured
            traceback.print_exc()
            failed.append(f"{case} {mode}")
            continue
        print(*map(row, measured), sep="\n", flush=True)
        records += measured
        if args.output:  # each time: what is interrupted loses nothing
            write(records, title, args.output)
    if args.output:
        draw(records, title, args.output / "attention.png")
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    sys.exit(status(main))
