"""Files and folders that are either whole or not there."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tupe.errors import UserError

_UNFINISHED = ".tupe-part"  # nobody else's files end so


@contextlib.contextmanager
def atomic(path: Path) -> Iterator[Path]:
    """Yields a temporary name beside `path`, which becomes `path` when the block ends without an exception.

    Raises:
        UserError: before the block, if there is a folder, pipe or device in its place, or a file in that of its folder.
    """
    if path.exists() and not path.is_file():
        what = "folder" if path.is_dir() else "pipe or device"
        raise UserError(f"{path} is a {what}: give the name of a file to write.")
    unfinished = path.with_name(f".{path.name}.{os.getpid()}{_UNFINISHED}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished.touch()
    except (FileExistsError, NotADirectoryError):
        raise UserError(
            f"{path.parent} cannot be a folder, because a file is in its place: give another name."
        ) from None
    except OSError as error:
        raise UserError(f"{path} cannot be written ({error.strerror}): give another place.") from None
    try:
        yield unfinished
        os.replace(unfinished, path)
    finally:
        unfinished.unlink(missing_ok=True)


def check_new(path: Path) -> None:
    """Before the work of a command that writes what took long to train. Raises a `UserError` if `path` is there."""
    if os.path.lexists(path):
        raise UserError(f"{path} is there already: name a new file to write.")


@contextlib.contextmanager
def whole_folder(path: Path) -> Iterator[Path]:
    """Yields an empty folder beside `path`, which takes its place when the block ends without an exception.

    The caller makes sure that what is at `path` is its own, and that no other process is doing the same (`own`).
    """
    unfinished, before = path.with_name(f".{path.name}.tupe-new"), path.with_name(f".{path.name}.tupe-before")
    if before.exists() and not path.exists():
        before.replace(path)  # killed between the two steps below
    for folder in (unfinished, before):
        shutil.rmtree(folder, ignore_errors=True)
    unfinished.mkdir(parents=True)
    try:
        yield unfinished
        if path.exists():
            path.replace(before)  # removed in place, it could be found half removed
        unfinished.replace(path)
    finally:
        for folder in (unfinished, before):
            shutil.rmtree(folder, ignore_errors=True)


def remove_unfinished(folder: Path) -> None:
    """Removes what `atomic` left in a folder when a process was killed."""
    for path in folder.glob(f".*.*{_UNFINISHED}"):
        path.unlink()


def write_json(path: Path, value: Any) -> None:
    """Writes `value`, atomically."""
    with atomic(path) as unfinished:
        unfinished.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def sha256(path: Path) -> str:
    """Checksum of a file's bytes, read in blocks."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()
