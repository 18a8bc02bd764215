"""Options, clock, turns, table and machine that the benchmarks share."""

import argparse
import json
import os
import platform
import statistics
import time
import traceback
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch


def parse(parser: argparse.ArgumentParser, *, rounds: int, warm_up: int, steps: int) -> Namespace:
    """Add the options of how to measure, with these defaults, and parse the command line."""
    add, usual = parser.add_argument, "cuda" if torch.cuda.is_available() else "cpu"
    add("--device", default=usual, help="default: cuda where there is one")
    add("--dtype", choices=["float32", "bfloat16", "float16"], help="default: bfloat16 on a GPU")
    add("--rounds", type=int, default=rounds, help="measured rounds (default: %(default)s)")
    add("--warm-up", type=int, default=warm_up, help="rounds before the measured ones (default: %(default)s)")
    add("--steps", type=int, default=steps, help="steps of each rival in a round (default: %(default)s)")
    add("--clock", choices=["wall", "process"], default="wall", help="process: processor time, for a busy CPU")
    add("--output", type=Path, help="folder for the records, in JSON, and the table")
    args = parser.parse_args()
    args.on_gpu = args.device.startswith("cuda")
    args.dtype = args.dtype or ("bfloat16" if args.on_gpu else "float32")
    return args


def turns(rivals: Iterable[str], args: Namespace) -> Iterator[tuple[int, str]]:
    """Yield the number of each round, below 0 while warming up, with each rival, in alternating order."""
    rivals = list(rivals)
    for number in range(-args.warm_up, args.rounds):
        for rival in rivals if number % 2 else reversed(rivals):
            yield number, rival


def seconds(step: Callable[[], object], args: Namespace) -> float:
    """Return the seconds of a step, the mean of `args.steps`, by the clock that the options name."""
    now = time.process_time if args.clock == "process" else time.perf_counter

    def clock() -> float:
        if args.on_gpu:
            torch.cuda.synchronize(args.device)
        return now()

    start = clock()
    for _ in range(args.steps):
        step()
    return (clock() - start) / args.steps


def extra_bytes(step: Callable[[], object], args: Namespace) -> int | None:
    """Return the peak bytes of a step on a GPU, beyond those that are allocated before it."""
    if not args.on_gpu:
        return None
    before = torch.cuda.memory_allocated(args.device)
    torch.cuda.reset_peak_memory_stats(args.device)
    step()
    return torch.cuda.max_memory_allocated(args.device) - before


def reason(error: Exception) -> str:
    """Print an error, and return its type and the beginning of its first line, for a cell of a table."""
    traceback.print_exception(error)
    return f"{type(error).__name__}: {str(error).partition(chr(10))[0][:100]}"


def compare(
    about: dict[str, Any],
    tokens: int,
    makers: dict[str, Callable[[], Any]],
    args: Namespace,
    clock: Callable[[Any, Namespace], float] = seconds,
    memory: Callable[[Any, Namespace], int | None] = extra_bytes,
) -> list[dict[str, Any]]:
    """Return a record of each rival, with `about`, which names the case; a rival that fails has the reason instead.

    `makers` return the rivals' steps, of `tokens` tokens each, or whatever `clock` and `memory` measure.
    """
    records: dict[str, dict[str, Any]] = {rival: {**about, "rival": rival} for rival in makers}
    made = {}
    for rival, make in makers.items():
        try:
            step = make()
            clock(step, args)  # the first call may compile it
            records[rival]["bytes"] = memory(step, args)
            made[rival] = step
        except Exception as error:  # a kernel or memory may be missing; the others are still compared
            records[rival]["missing"] = reason(error)
    times: dict[str, list[float]] = {rival: [] for rival in made}
    for number, rival in turns(made, args):
        measured = clock(made[rival], args)
        if number >= 0:
            times[rival].append(measured)
    first = times.get(next(iter(makers)), [float("nan")] * args.rounds)
    for rival, found in times.items():
        records[rival]["milliseconds"] = [1000 * value for value in spread(found)]
        records[rival]["tokens_per_second"] = tokens / statistics.median(found)
        records[rival]["time_over_first"] = spread([own / other for own, other in zip(found, first)])
    return [*records.values()]


def row(record: dict[str, Any]) -> str:
    """Format the case and the rival of a record, and its figures or the reason why it has none."""
    cells = [value for value in record.values() if isinstance(value, str)]
    if "missing" not in record:
        memory = f"{record['bytes'] / 2**20:,.1f} MiB" if record["bytes"] else ""
        speed = f"{record['tokens_per_second']:,.0f}"
        cells += [quartiles(record["milliseconds"]), speed, quartiles(record["time_over_first"]), memory]
    return f"| {' | '.join(cells)} |"


def report(name: str, title: str, cases: Iterable[list[dict[str, Any]]], args: Namespace) -> list[dict[str, Any]]:
    """Print the table of the records and return them.

    `NAME.json` and `NAME.md` in `args.output` are written after each case, so that an interrupted run loses nothing.
    """
    records: list[dict[str, Any]] = []
    lines: list[str] = []
    print(title, flush=True)
    for measured in cases:
        if not lines:
            about = [key for key, value in measured[0].items() if isinstance(value, str) and key != "missing"]
            heads = [*about, "ms (quartiles)", "tokens/s", "time / first's (quartiles)", "memory"]
            lines = ["", f"| {' | '.join(heads)} |", len(heads) * "|---" + "|"]
            print(*lines, sep="\n")
        records += measured
        lines += map(row, measured)
        print(*lines[-len(measured) :], sep="\n", flush=True)
        if args.output is not None:
            args.output.mkdir(parents=True, exist_ok=True)
            (args.output / f"{name}.json").write_text(json.dumps({"run": title, "records": records}, indent=1) + "\n")
            (args.output / f"{name}.md").write_text("\n".join([title, *lines]) + "\n")
    return records


def spread(values: list[float]) -> list[float]:
    """Return first quartile, median and third quartile."""
    first, _, third = statistics.quantiles(values, n=4, method="inclusive") if len(values) > 1 else values * 3
    return [first, statistics.median(values), third]


def quartiles(found: Sequence[float]) -> str:
    """Format the result of `spread`: `1.024 (1.001-1.052)`."""
    low, median, high = (f"{value:.3f}" for value in found)
    return f"{median} ({low}-{high})"


def machine(device: str) -> str:
    """Name the GPU or CPU, the CPU threads and load, and PyTorch's version."""
    name = torch.cuda.get_device_name(device) if device.startswith("cuda") else processor()
    return f"{name}, {torch.get_num_threads()} threads, load {os.getloadavg()[0]:.1f}, PyTorch {torch.__version__}"


def processor() -> str:
    """Return the CPU's name, or its architecture if /proc/cpuinfo has no name."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
