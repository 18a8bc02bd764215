"""What became of the questions of a file, as lines to print."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def lines(content: dict[str, Any]) -> Iterator[str]:
    """A line for each file, and more for answers that were not found, and for how far those that were lead."""
    for split, found in content["splits"].items():
        counts = f"{found['read']:,} questions read, {found['kept']:,} kept"
        contexts = f"{found['contexts']:,} contexts of {found['pieces']:,} pieces, {found['unknown']:.2f}% unknown"
        yield f"{split:<8} {counts}; {contexts}"
        dropped = "dropped" if found["kept"] < found["read"] else "without a target"
        for reason, number in found["reasons"].items():
            yield f"{'':<8} {number:,} {dropped}: {reason}"
        if found["first"]:
            yield f"{'':<8} first: {found['first']}"
        if found["targets"]:
            recovered = f"exact match {found['exact_match']:.2f}, F1 {found['f1']:.2f}"
            yield f"{'':<8} answers recovered from pieces: {recovered}; {found['long']:,} longer than 30 pieces"
