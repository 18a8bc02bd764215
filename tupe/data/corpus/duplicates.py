"""Finds what came before, among 64-bit hashes on disk.

A slice of all hashes is compared at a time, so memory does not grow with the corpus; the marks lie in a file that is
mapped, not loaded. That two different ones of 150 million lines (16 GB) get the same hash happens in one such corpus
of 1,600.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from tupe.files import atomic

SLICE = 1 << 23  # hashes compared at a time: some 300 MB


def repeated(files: Sequence[Path], marks: Path) -> np.ndarray:
    """Marks each hash that an earlier one equals.

    Args:
        files: of 64-bit hashes, in order.
        marks: file to write, a bool for each hash, in the same order; kept if it is there.

    Returns:
        The marks, mapped from the file.
    """
    if not marks.exists():
        total = number_of(files)
        slices = max(1, -(-total // SLICE))
        with atomic(marks) as unfinished:
            found = np.lib.format.open_memmap(unfinished, mode="w+", dtype=bool, shape=(total,))
            for number in range(slices):
                parts = [(here[chosen], begin + chosen) for begin, here, chosen in _slice(files, number, slices)]
                if parts:
                    hashes, places = map(np.concatenate, zip(*parts))
                    _, first = np.unique(hashes, return_index=True)
                    again = np.ones(len(hashes), dtype=bool)
                    again[first] = False
                    found[places[again]] = True
            found.flush()
    return np.load(marks, mmap_mode="r")


def number_of(files: Sequence[Path]) -> int:
    """How many hashes are in the files."""
    return sum(file.stat().st_size for file in files) // 8


def _slice(files: Sequence[Path], number: int, slices: int) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
    """Blocks of hashes: the place where each begins, the hashes, and which of them leave the remainder `number`."""
    begin = 0
    for path in files:
        with path.open("rb") as file:
            while len(here := np.fromfile(file, dtype="<u8", count=SLICE)):
                yield begin, here, np.flatnonzero(here % np.uint64(slices) == number)
                begin += len(here)
