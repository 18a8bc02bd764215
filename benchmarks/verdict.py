"""Says what the rule of docs/dev/kernels.md decides from measured steps: whether `auto` keeps the kernels at a length.

    python benchmarks/verdict.py runs/gpu/attention/attention.json      # of attention alone, forward and backward
    python benchmarks/verdict.py --model runs/gpu/backends/model.json   # of a training step

A step with the kernels must be at least 10% faster than the best of the others; else `auto` takes that one, and the
kernels stay for the lengths where they win.
"""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from tupe.cli.main import status
from tupe.errors import UserError
from tupe.files import read_json

#: A rival may take at most this share of its time where the kernels are to stay.
SHARE = 0.9
LENGTH = 512
OURS = ("ours", "structured")
OTHERS = ("factors", "sdpa", "flex")


def decide(times: dict[str, float]) -> str:
    """Return the verdict on milliseconds by name: `kernels` against the others."""
    others = {name: value for name, value in times.items() if name != "kernels"}
    if "kernels" not in times or not others:
        return "no verdict: the kernels or all of the others were not measured"
    best = min(others, key=others.get)
    ratio = times["kernels"] / others[best]
    said = f"the kernels take {times['kernels']:.3g} ms, {best} takes {others[best]:.3g} ms, a ratio of {ratio:.2f}"
    return f"{said}: auto {'keeps the kernels' if ratio <= SHARE else f'takes {best}'}"


def by_length(records: list[dict]) -> dict[int, dict[str, float]]:
    """Return the median milliseconds of forward and backward together, by length and name."""
    found: dict[int, dict[str, float]] = {}
    for record in records:
        if record["mode"] == "forward + backward" and "milliseconds" in record:
            name = "kernels" if record["rival"] in OURS else record["rival"]
            if name == "kernels" or name in OTHERS:
                times = found.setdefault(int(record["length"]), {})
                times[name] = min(times.get(name, float("inf")), float(record["milliseconds"][1]))
    return found


def by_size(records: list[dict]) -> dict[str, dict[str, float]]:
    """Return the median milliseconds of a training step by size and by the backend that ends a rival's name.

    FlexAttention cannot drop attention weights: it is compared in steps without, which are named as such.
    """
    found: dict[str, dict[str, float]] = {}
    for record in records:
        name = record["rival"].rpartition("_")[2]
        if record["mode"] == "training" and name in ("triton", *OTHERS):
            without = " without attention dropout" if record.get("attention_dropout") == 0 else ""
            times = found.setdefault(record["size"] + without, {})
            times["kernels" if name == "triton" else name] = float(record["milliseconds"][1])
    return found


def read_times(path: Path, made_by: str, times_of: Callable[[list[dict]], dict]) -> dict:
    """Return what `times_of` finds in a file of records. Raise `UserError` for any other file."""
    content = read_json(path, made_by)
    try:
        found = times_of(content["records"])
    except (AttributeError, IndexError, KeyError, TypeError, ValueError):
        found = {}
    if not found:
        raise UserError(f"{path} has no records that the rule compares: give what --output of {made_by} wrote.")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("records", nargs="?", type=Path, help="attention.json of attention.py")
    parser.add_argument("--model", type=Path, help="model.json of model.py")
    args = parser.parse_args()
    if args.model is None and args.records is None:
        parser.error("nothing is measured: give an attention.json, or --model and a model.json")
    if args.model is not None:
        for size, times in read_times(args.model, "benchmarks/model.py", by_size).items():
            print(f"verdict, a training step of {size}: {decide(times)}")
    if args.records is not None:
        for length, times in sorted(read_times(args.records, "benchmarks/attention.py", by_length).items()):
            rule = " (the rule's length)" if length == LENGTH else ""
            print(f"verdict, attention at {length} tokens{rule}: {decide(times)}")


if __name__ == "__main__":
    sys.exit(status(main))
