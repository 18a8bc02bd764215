"""Types of arguments: numbers with bounds, and outputs, which never take the place of an input or of a checkpoint.

    add("--sequences", type=whole(1), ...)
    add("--output", type=output_file, ...)

What an output may replace is checked for every command after its arguments are parsed (`check_outputs`), against all
other arguments that name a file or folder.
"""

import argparse
import math
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tupe.cores import available_cores
from tupe.errors import UserError
from tupe.files import check_new, check_replaceable

SEEDS = 0, 2**32 - 1


def _within(least: float, most: float, kind: Callable[[str], Any], words: str) -> Callable[[str], Any]:
    def number(text: str) -> Any:
        try:
            value = kind(text)
        except ValueError:
            value = math.nan
        if not least <= value <= most:
            raise argparse.ArgumentTypeError(f"{text:.40} is not {words}")
        return value

    return number


def whole(least: int, most: int = 1_000_000_000) -> Callable[[str], int]:
    """Make the type of a whole number from `least` to `most`."""
    return _within(least, most, int, f"a whole number from {least:,} to {most:,}")


#: Size of a vocabulary: more than its eight special symbols, and not more than any has.
symbols = whole(9, 4_000_000)


def real(least: float, most: float) -> Callable[[str], float]:
    """Make the type of a number from `least` to `most`."""
    return _within(least, most, float, f"a number from {least:g} to {most:g}")


def listed(kind: Callable[[str], Any]) -> Callable[[str], list]:
    """Make the type of a list such as `1,2,3`, without repeated values."""
    return lambda text: list(dict.fromkeys(kind(value) for value in text.replace(",", " ").split()))


def add_workers(parser: argparse.ArgumentParser) -> None:
    help_ = "processes (default: all cores it may use)"
    parser.add_argument("--workers", type=whole(1, 10_000), default=available_cores(), metavar="N", help=help_)


def new_file(text: str) -> Path:
    """Type of an output that must not exist yet, because it took long to make."""
    return Path(text)


def output_file(text: str) -> Path:
    """Type of an output text or picture, which may replace an earlier one."""
    return Path(text)


def output_folder(text: str) -> Path:
    """Type of an output folder; the command checks what is in it (`tupe.files.own`)."""
    return Path(text)


def _check_place(out: Path) -> None:
    """Raise a `UserError` if a file cannot be written there, which the command would say after its work."""
    first = next(path for path in out.absolute().parents if path.exists())
    if not first.is_dir():
        raise UserError(f"{first} cannot be a folder, because a file is in its place: give another name.")
    if not os.access(first, os.W_OK):
        raise UserError(f"{out} cannot be written (no permission in {first}): give another place.")


def check_outputs(parser: argparse.ArgumentParser, args: argparse.Namespace) -> None:
    """Raise a `UserError` for an output that cannot be there, or that would replace anything but a text or picture."""
    kinds = {action.dest: action.type for action in parser._actions}
    outputs = {name for name, kind in kinds.items() if kind in (new_file, output_file, output_folder)}
    inputs = [path for name, value in vars(args).items() if name not in outputs for path in _paths(value)]
    seen: list[Path] = []
    for name in outputs:
        out = getattr(args, name)
        if out is None:
            continue
        if any(out.absolute() == other.absolute() for other in seen):
            raise UserError(f"two outputs are called {out}: give each its own name.")
        seen.append(out)
        if kinds[name] is not output_folder:
            _check_place(out)
        same = [path for path in inputs if out.exists() and path.exists() and path.samefile(out)]
        if same:
            name = f"{out} is" if same[0] == out else f"{out} is {same[0]},"
            raise UserError(f"{name} what the command reads: give another name for what it writes.")
        if kinds[name] is new_file:
            check_new(out)
        elif kinds[name] is output_file:
            check_replaceable(out, [path for path in inputs if path.is_dir()])


def _paths(value: Any) -> Iterator[Path]:
    """Yield every path in the value of an argument, which may have labels and lists."""
    if isinstance(value, Path):
        yield value
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _paths(inner)
