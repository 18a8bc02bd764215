"""Whether files are still what was written: sizes at every start, which is free; checksums when asked (`--verify`).

fairseq's binary data has two files: `train.idx` says how long `train.bin` must be.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath

from tupe.errors import UserError
from tupe.files.typed import check_file
from tupe.files.whole import sha256

_MAGIC = b"MMIDIDX\x00\x00"  # fairseq.data.indexed_dataset.MMapIndexedDataset
_HEADER = struct.Struct("<9sQBQ")  # the magic, a version, the code of the type of a token, how many sequences
_ITEM_SIZES = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 6: 8, 7: 8, 8: 2, 9: 4, 10: 8}  # bytes of a token, by that code


def sizes(folder: Path, names: Iterable[str]) -> dict[str, int]:
    """Bytes of each file, for a manifest."""
    return {name: (folder / name).stat().st_size for name in names}


def checksums(folder: Path, names: Iterable[str]) -> dict[str, str]:
    """SHA-256 of each file, for a manifest."""
    return {name: sha256(folder / name) for name in names}


def check_sizes(folder: Path, expected: Mapping[str, int], made_by: str, mending: str = "prepare it again") -> None:
    """Raises a `UserError` if a file of `folder` is missing or has not as many bytes as its manifest says."""
    for name, size in expected.items():
        found = _inside(folder, name, made_by, mending).stat().st_size
        if found != size:
            raise UserError(f"{folder / name} has {found:,} bytes, not the {size:,} that {made_by} wrote: {mending}.")


def check_checksums(folder: Path, expected: Mapping[str, str], made_by: str, mending: str = "prepare it again") -> None:
    """Raises a `UserError` if a file of `folder` is missing or not the one that its manifest was written for."""
    for name, checksum in expected.items():
        if sha256(_inside(folder, name, made_by, mending)) != checksum:
            raise UserError(f"{folder / name} is not the one that {made_by} wrote: {mending}.")


def check_contents(
    folder: Path, sizes: Mapping[str, int], checksums: Mapping[str, str], made_by: str, mending: str
) -> None:
    """What a manifest says: sizes, binary data against its index, and these checksums. Errors as of each."""
    check_sizes(folder, sizes, made_by, mending)
    for name in sizes:
        if name.endswith(".idx"):
            check_indexed((folder / name).with_suffix(""), made_by, mending)
    check_checksums(folder, checksums, made_by, mending)


def check_indexed(prefix: Path, made_by: str, mending: str = "prepare it again") -> int:
    """Checks the size of `prefix.bin` against `prefix.idx`, whose first and last entries alone are read.

    Returns:
        How many sequences there are.

    Raises:
        UserError: if one is missing, is no binary data of fairseq's, or is cut.
    """
    index, data = (prefix.with_name(f"{prefix.name}.{suffix}") for suffix in ("idx", "bin"))
    for path in (index, data):
        check_file(path, made_by)
    size = index.stat().st_size
    with index.open("rb") as file:
        header = file.read(_HEADER.size)
        if len(header) < _HEADER.size or not header.startswith(_MAGIC):
            raise UserError(f"{index} is no index of fairseq's binary data: {mending}.")
        _, version, code, number = _HEADER.unpack(header)
        if version != 1 or code not in _ITEM_SIZES:
            raise UserError(f"{index} is of another version of fairseq's binary data: {mending}.")
        if size != _HEADER.size + 12 * number:
            raise UserError(f"{index} has {size:,} bytes, which are not those of {number:,} sequences: {mending}.")
        expected = 0
        if number:
            file.seek(_HEADER.size + 4 * (number - 1))
            (tokens,) = struct.unpack("<i", file.read(4))
            file.seek(-8, 2)
            (start,) = struct.unpack("<q", file.read(8))
            expected = start + tokens * _ITEM_SIZES[code]
    found = data.stat().st_size
    if found != expected:
        raise UserError(f"{data} has {found:,} bytes, not the {expected:,} that {index.name} says: {mending}.")
    return number


def _inside(folder: Path, name: str, made_by: str, mending: str) -> Path:
    """A file that a manifest names, which is in its folder and nowhere else."""
    pure = PurePosixPath(name)
    if pure.is_absolute() or ".." in pure.parts or "\0" in name:
        raise UserError(f"the manifest in {folder} names {name!r}, which is not in that folder: {mending}.")
    path = folder / pure
    if not path.is_file():
        raise UserError(f"{path} is missing, though {made_by} wrote it: {mending}.")
    return path
