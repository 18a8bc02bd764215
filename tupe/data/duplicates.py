"""Find repeated 64-bit hashes in a file.

The first bits of a hash put it into a range that fits in memory. For each range the file, which is mapped, is read
once, so memory does not grow with the corpus. In one of 1,600 corpora of 150 million lines (16 GB), two different lines
have the same hash.
"""

from pathlib import Path

import numpy as np

from tupe.util import atomic

SLICE = 1 << 23  # hashes compared at a time: some 300 MB


def repeated(hashes: np.ndarray, marks: Path) -> np.ndarray:
    """Mark each 64-bit hash `(N,)` that an earlier one equals: bool `(N,)`, mapped from the file `marks`."""
    ranges = max(1, -(-len(hashes) // SLICE))
    with atomic(marks) as part:
        found = np.lib.format.open_memmap(part, mode="w+", dtype=bool, shape=hashes.shape)
        for number in range(ranges):
            places = np.concatenate([_places(hashes, start, ranges, number) for start in range(0, len(hashes), SLICE)])

            chosen = hashes[places]
            order = np.argsort(chosen, kind="stable")
            again = order[1:][chosen[order[1:]] == chosen[order[:-1]]]
            found[places[again]] = True
        found.flush()
    return np.load(marks, mmap_mode="r")


def _places(hashes: np.ndarray, start: int, ranges: int, number: int) -> np.ndarray:
    """Return the places of the hashes of a range, in the block that begins at `start`."""
    block = hashes[start : start + SLICE]
    return start + np.flatnonzero(((block >> np.uint64(32)) * np.uint64(ranges)) >> np.uint64(32) == number)
