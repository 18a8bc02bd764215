"""Checks that files are still what was written: sizes at every start, checksums when asked (`--verify`)."""

from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath

from tupe.errors import UserError
from tupe.files.atomic_files import sha256


def sizes(folder: Path, names: Iterable[str]) -> dict[str, int]:
    """Return the bytes of each file, for a manifest."""
    return {name: (folder / name).stat().st_size for name in names}


def checksums(folder: Path, names: Iterable[str]) -> dict[str, str]:
    """Compute the SHA-256 of each file, for a manifest."""
    return {name: sha256(folder / name) for name in names}


def check_sizes(folder: Path, expected: Mapping[str, int], made_by: str, mending: str = "prepare it again") -> None:
    """Raise a `UserError` if a file of `folder` is missing or differs in size from what its manifest says."""
    for name, size in expected.items():
        found = _inside(folder, name, made_by, mending).stat().st_size
        if found != size:
            raise UserError(f"{folder / name} has {found:,} bytes, not the {size:,} that {made_by} wrote: {mending}.")


def check_checksums(folder: Path, expected: Mapping[str, str], made_by: str, mending: str = "prepare it again") -> None:
    """Raise a `UserError` if a file of `folder` is missing or not the one that its manifest was written for."""
    for name, checksum in expected.items():
        if sha256(_inside(folder, name, made_by, mending)) != checksum:
            raise UserError(f"{folder / name} is not the one that {made_by} wrote: {mending}.")


def _inside(folder: Path, name: str, made_by: str, mending: str) -> Path:
    """Return a file that a manifest names, which is in its folder and nowhere else."""
    pure = PurePosixPath(name)
    if pure.is_absolute() or ".." in pure.parts or "\0" in name:
        raise UserError(f"the manifest in {folder} names {name!r}, which is not in that folder: {mending}.")
    path = folder / pure
    if not path.is_file():
        raise UserError(f"{path} is missing, though {made_by} wrote it: {mending}.")
    return path
