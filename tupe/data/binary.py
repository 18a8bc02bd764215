"""fairseq's binary data: `train.bin` holds the tokens, `train.idx` the size of each sequence and where it begins.

Indexes are written by fairseq's own writer, in blocks of sequences. When data is opened, all of it is checked
(`check_indexed`); fairseq reads it from end to end anyway, so that a later access finds it in memory.
"""

import contextlib
import struct
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import BinaryIO

import numpy as np

from tupe.errors import UserError
from tupe.files import check_checksums, check_file, check_sizes
from tupe.util import atomic

_MAGIC = b"MMIDIDX\x00\x00"  # fairseq.data.indexed_dataset.MMapIndexedDataset
_HEADER = struct.Struct("<9sQBQ")  # magic, version, code of the tokens' type, number of sequences
_TYPES = dict(enumerate(("u1", "i1", "i2", "i4", "i8", "f8", "f8", "u2", "u4", "u8"), 1))  # by that code
_BLOCK = 1 << 20  # sequences or tokens that are checked at a time

PAD, EOS = 1, 2  # the numbers of <pad> and </s> in every dictionary of fairseq


def check_folder(folder: Path) -> None:
    """Raise a `UserError` for a file, and if fairseq would read the folder's name as a list of names."""
    if folder.is_file():
        raise UserError(f"{folder} is a file, but OUT is a folder to write: give its name too.")
    for sign in ",:":
        if sign in str(folder):
            raise UserError(f"fairseq takes the '{sign}' in {folder} for the end of a name: use a folder without.")


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


def check_contents(
    folder: Path, sizes: Mapping[str, int], checksums: Mapping[str, str], made_by: str, mending: str
) -> None:
    """Check what a manifest says: sizes, binary data against its index, and these checksums, each with its errors."""
    check_sizes(folder, sizes, made_by, mending)
    for name in sizes:
        if name.endswith(".idx"):
            check_indexed((folder / name).with_suffix(""), made_by, mending)
    check_checksums(folder, checksums, made_by, mending)


def is_indexed(prefix: Path) -> bool:
    """Tell whether there is data of this format; fairseq has an older one too, of which it reads everything."""
    index, data = index_and_data(prefix)
    if not index.is_file() or not data.is_file():
        return False
    with index.open("rb") as file:
        return file.read(len(_MAGIC)) == _MAGIC


def check_indexed(prefix: Path, made_by: str, mending: str = "prepare it again", symbols: int | None = None) -> int:
    """Check `prefix.idx`, the size of `prefix.bin`, and that the dictionary has all tokens.

    Without the size of the dictionary, `symbols`, the tokens are not read. Messages say what writes such files
    (`made_by`) and what to do about wrong ones (`mending`).

    Returns:
        How many sequences there are.

    Raises:
        UserError: if a file is missing, cut, no binary data of fairseq's, or cannot be what the writer wrote.
    """
    index, data = index_and_data(prefix)
    for path in (index, data):
        check_file(path, made_by)
    size = index.stat().st_size
    with index.open("rb") as file:
        header = file.read(_HEADER.size)
        if len(header) < _HEADER.size or not header.startswith(_MAGIC):
            raise UserError(f"{index} is no index of fairseq's binary data: {mending}.")
        _, version, code, number = _HEADER.unpack(header)
        if version != 1 or code not in _TYPES:
            raise UserError(f"{index} is of another version of fairseq's binary data: {mending}.")
        if size != _HEADER.size + 12 * number:
            raise UserError(f"{index} has {size:,} bytes, which are not those of {number:,} sequences: {mending}.")
        kind = np.dtype(_TYPES[code])
        expected = _end_of_sequences(file, number, kind.itemsize, mending)
    found = data.stat().st_size
    if found != expected:
        raise UserError(f"{data} has {found:,} bytes, not the {expected:,} that {index.name} says: {mending}.")
    if symbols is not None:
        _check_tokens(data, kind, symbols, mending)
    return number


def check_open_files(prefix: Path) -> None:
    """Raise the system's `OSError` unless the process may open as many files as fairseq does to map the data.

    If fairseq met this error itself, its half-made objects would print a traceback when they are deleted.
    """
    index, data = index_and_data(prefix)
    with index.open("rb"), data.open("rb"), data.open("rb"):  # an index that is mapped, the data, and what maps it
        pass


def _end_of_sequences(file: BinaryIO, number: int, item: int, mending: str) -> int:
    """Return the bytes of all sequences in an index, each of which must begin where the one before it ends."""
    end = 0
    for first in range(0, number, _BLOCK):
        count = min(_BLOCK, number - first)
        file.seek(_HEADER.size + 4 * first)
        sizes = np.frombuffer(file.read(4 * count), "<i4").astype(np.int64) * item
        file.seek(_HEADER.size + 4 * number + 8 * first)
        begins = np.frombuffer(file.read(8 * count), "<i8")
        ends = end + np.cumsum(sizes)
        wrong = np.flatnonzero((sizes < 0) | (begins != ends - sizes))
        if len(wrong):
            at = wrong[0]
            raise UserError(
                f"{file.name} is damaged: its sequence {first + at:,} of {number:,} has {sizes[at] // item:,} tokens "
                f"from byte {begins[at]:,} on, not from {ends[at] - sizes[at]:,}: {mending}."
            )
        end = int(ends[-1])
    return end


def _check_tokens(data: Path, kind: np.dtype, symbols: int, mending: str) -> None:
    with data.open("rb") as file:
        first = 0
        while block := file.read(_BLOCK * kind.itemsize):
            tokens = np.frombuffer(block, kind)
            if not 0 <= tokens.min() <= tokens.max() < symbols:
                at = np.flatnonzero((tokens < 0) | (tokens >= symbols))[0]
                raise UserError(
                    f"{data} is damaged or has another dictionary: its token {first + at:,} is number {tokens[at]:,} "
                    f"of {symbols:,} symbols: {mending}."
                )
            if not tokens.any():  # as a file system leaves a file after a crash
                raise UserError(f"{data} is damaged: all its tokens from {first:,} on are number 0: {mending}.")
            first += len(tokens)
