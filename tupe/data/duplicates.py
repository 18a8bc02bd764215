"""Find repeated 64-bit hashes in a file.

The first bits of a hash put it into a range that fits in memory. For each range the file, which is mapped, is read
once, so memory grows with the corpus by a byte per hash. In one of 1,600 corpora of 150 million lines (16 GB), two
different lines have the same hash.
"""

import numpy as np

SLICE = 1 << 23  # hashes compared at a time: some 300 MB


def repeated(hashes: np.ndarray) -> np.ndarray:
    """Mark each 64-bit hash `(N,)` that an earlier one equals: bool `(N,)`."""
    found, ranges = np.zeros(len(hashes), dtype=bool), -(-len(hashes) // SLICE)
    for number in range(ranges):
        blocks = (hashes[start : start + SLICE] >> np.uint64(32) for start in range(0, len(hashes), SLICE))
        chosen = np.concatenate([(block * np.uint64(ranges)) >> np.uint64(32) == number for block in blocks])
        places = np.flatnonzero(chosen)
        of_range = hashes[places]
        order = np.argsort(of_range, kind="stable")
        again = order[1:][of_range[order[1:]] == of_range[order[:-1]]]
        found[places[again]] = True
    return found
