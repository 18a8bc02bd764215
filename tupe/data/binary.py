"""fairseq's binary data, `train.bin` and `train.idx`, written by its own writer of indexes in blocks of sequences."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Callable

import numpy as np

from tupe.errors import UserError
from tupe.files import atomic

EOS = 2  # the number of </s> in every dictionary of fairseq


def check_folder(folder: Path) -> None:
    """Raises a `UserError` for a file, and if fairseq would read the folder's name as a list of names."""
    if folder.is_file():
        raise UserError(f"{folder} is a file, but OUT is a folder to write: give its name too.")
    for sign in ",:":
        if sign in str(folder):
            raise UserError(f"fairseq takes the '{sign}' in {folder} for the end of a name: use a folder without.")


def type_of_tokens(symbols: int) -> type:
    """What `fairseq-preprocess` writes tokens as: `uint16`, or `int32` for a large dictionary."""
    from fairseq.data.indexed_dataset import best_fitting_int_dtype

    return best_fitting_int_dtype(symbols)


@contextlib.contextmanager
def writer(prefix: Path, symbols: int) -> Iterator[Callable[[np.ndarray, np.ndarray], None]]:
    """Yields `add(tokens, sizes)`: appends sequences, whose tokens follow each other. The index comes last.

    Args:
        prefix: of the two files.
        symbols: in the dictionary.
    """
    from fairseq.data.indexed_dataset import MMapIndexedDataset, data_file_path, index_file_path

    kind = type_of_tokens(symbols)
    lengths: list[np.ndarray] = [np.empty(0, dtype=np.int32)]
    with atomic(Path(index_file_path(str(prefix)))) as index, atomic(Path(data_file_path(str(prefix)))) as data:
        with data.open("wb") as file:

            def add(tokens: np.ndarray, sizes: np.ndarray) -> None:
                file.write(np.asarray(tokens, dtype=kind).tobytes())
                lengths.append(np.asarray(sizes, dtype=np.int32))

            yield add
        with MMapIndexedDataset.Index.writer(str(index), kind) as entries:
            entries._get_pointers = lambda sizes: _starts(sizes) * np.dtype(kind).itemsize  # fairseq's is a loop
            entries.write(np.concatenate(lengths))


def _starts(sizes: np.ndarray) -> np.ndarray:
    """Where each sequence begins, in tokens."""
    return np.cumsum(sizes, dtype=np.int64) - sizes
