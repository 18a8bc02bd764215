"""fairseq's binary data: `train.bin` holds the tokens, `train.idx` the size of each sequence and where it begins."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from tupe.util import atomic

PAD, EOS = 1, 2  # the numbers of <pad> and </s> in every dictionary of fairseq


def index_and_data(prefix: Path) -> tuple[Path, Path]:
    """Return the paths of the index and of the data."""
    return prefix.with_name(f"{prefix.name}.idx"), prefix.with_name(f"{prefix.name}.bin")


@contextlib.contextmanager
def writer(prefix: Path, symbols: int) -> Iterator[Callable[[np.ndarray, np.ndarray], None]]:
    """Yield `add(tokens, sizes)`, which appends sequences whose tokens follow each other. The index comes last."""
    from fairseq.data.indexed_dataset import MMapIndexedDataset, best_fitting_int_dtype

    kind = best_fitting_int_dtype(symbols)  # as `fairseq-preprocess`: uint16, or int32 for a large dictionary
    lengths: list[np.ndarray] = [np.empty(0, dtype=np.int32)]
    of_index, of_data = index_and_data(prefix)
    with atomic(of_index, overwrite=True) as index, atomic(of_data, overwrite=True) as data:
        with data.open("wb") as file:

            def add(tokens: np.ndarray, sizes: np.ndarray) -> None:
                file.write(np.asarray(tokens, dtype=kind).tobytes())
                lengths.append(np.asarray(sizes, dtype=np.int32))

            yield add
        with MMapIndexedDataset.Index.writer(str(index), kind) as entries:
            item = np.dtype(kind).itemsize
            # fairseq's is a loop
            entries._get_pointers = lambda sizes: item * (np.cumsum(sizes, dtype=np.int64) - sizes)
            entries.write(np.concatenate(lengths))
