"""fairseq's binary data: `train.bin` holds the tokens, `train.idx` the size and the start of each sequence."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import torch

from tupe.util import atomic

EOS = 2  # the number of </s> in every dictionary of fairseq


@contextlib.contextmanager
def writer(prefix: Path, symbols: int) -> Iterator[Callable[[Sequence[int]], None]]:
    """Yield a function that adds a sequence of numbers below `symbols`. The index is written last."""
    from fairseq.data.indexed_dataset import MMapIndexedDatasetBuilder, best_fitting_int_dtype

    of_index, of_data = (prefix.with_name(f"{prefix.name}.{end}") for end in ("idx", "bin"))
    with atomic(of_index, overwrite=True) as index, atomic(of_data, overwrite=True) as data:
        builder = MMapIndexedDatasetBuilder(data, dtype=best_fitting_int_dtype(symbols))
        yield lambda sequence: builder.add_item(torch.as_tensor(sequence))
        builder.finalize(str(index))
