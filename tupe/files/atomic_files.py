"""Files and folders that are either whole or not there."""

import codecs
import contextlib
import functools
import hashlib
import json
import os
import platform
import shutil
import tempfile
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

from tupe.errors import UserError
from tupe.files.space import is_full, no_room

_UNFINISHED = ".tupe-part"  # suffix that no other program uses
_ABANDONED = 3600  # seconds without a write
_HERE = platform.node().replace(".", "-") or "localhost"

#: How pictures begin: PNG, PDF, JPEG, TIFF, WebP, GIF. SVG, PostScript and PGF are text.
_PICTURES = (b"\x89PNG", b"%PDF", b"\xff\xd8\xff", b"II*\0", b"MM\0*", b"RIFF", b"GIF8")
_TABLES = (".md", ".csv", ".tsv", ".json", ".html", ".htm", ".svg", ".eps", ".ps", ".pgf")


@contextlib.contextmanager
def atomic(path: Path, size: Callable[[], int] | None = None) -> Iterator[Path]:
    """Yield a temporary name beside `path`, which becomes `path` when the block ends without an exception.

    `size` returns how many bytes the whole file has; it is called only if the disk is full, for the message.

    Raises:
        UserError: before the block, if a folder, pipe or device is in the file's place, or a file in its folder's;
            after it, if the disk is full.
    """
    if path.exists() and not path.is_file():
        what = "folder" if path.is_dir() else "pipe or device"
        raise UserError(f"{path} is a {what}: give the name of a file to write.")
    unfinished = path.with_name(f".{path.name}.{_HERE}.{os.getpid()}{_UNFINISHED}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _sweep(path.parent.resolve())
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
    except Exception as error:
        if isinstance(error, UserError) or not is_full(error):
            raise
        unfinished.unlink(missing_ok=True)
        raise no_room(path, None if size is None else size()) from error
    finally:
        unfinished.unlink(missing_ok=True)


def check_new(path: Path) -> None:
    """Raise a `UserError` if `path` exists. A command calls it before the work whose result goes there."""
    if os.path.lexists(path):
        raise UserError(f"{path} is there already: name a new file to write.")


def check_replaceable(path: Path, read: Collection[Path] = ()) -> None:
    """Check that a command may write a text or picture to `path`, in place of one of an earlier run.

    In folders that the command reads, only pictures and tables may be replaced.

    Raises:
        UserError: if the file is a checkpoint or another binary one, JSON that commands read (an object), or a text of
            prepared data or of a folder that is read.
    """
    if not path.is_file():
        return
    place = path.resolve()
    try:
        with place.open("rb") as file:
            content = file.read(1 << 16)
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror}), so it is kept: name another file.") from None
    if content.startswith(_PICTURES):
        return
    kept = None
    if not _is_text(content):
        kept = "neither text nor picture"
    elif content.lstrip().startswith(b"{"):
        kept = "JSON that commands read"
    elif any(_is_prepared(folder) for folder in (place.parent, place.parent.parent)):
        kept = "a file of prepared data"
    elif place.suffix not in _TABLES and any(place.is_relative_to(folder.resolve()) for folder in read):
        kept = "a file of a folder that the command reads"
    if kept:
        raise UserError(f"{path} is {kept}, which is not written over: name another file.")


def _is_text(content: bytes) -> bool:
    """Tell whether the beginning of a file is UTF-8; its last character may be cut."""
    try:
        return "\0" not in codecs.getincrementaldecoder("utf-8")().decode(content)
    except UnicodeDecodeError:
        return False


def _is_prepared(folder: Path) -> bool:
    """Tell by its dictionaries whether a folder holds fairseq's data."""
    return any(folder.glob("dict.txt")) or any(folder.glob("dict.*.txt"))


@contextlib.contextmanager
def whole_folder(path: Path) -> Iterator[Path]:
    """Yield an empty folder beside `path`, which takes its place when the block ends without an exception.

    The caller makes sure that what is at `path` is its own, and that no other process is doing the same (`own`).
    """
    unfinished, before = path.with_name(f".{path.name}.tupe-new"), path.with_name(f".{path.name}.tupe-before")
    if before.exists() and not path.exists():
        before.replace(path)  # the process was killed between the two steps below
    for folder in (unfinished, before):
        shutil.rmtree(folder, ignore_errors=True)
    unfinished.mkdir(parents=True)
    try:
        yield unfinished
        if path.exists():
            path.replace(before)  # removing it in place could leave half of it
        unfinished.replace(path)
    finally:
        for folder in (unfinished, before):
            shutil.rmtree(folder, ignore_errors=True)


def remove_unfinished(folder: Path) -> None:
    """Remove files that `atomic` left when processes were killed, in a folder where no other is at work (`own`)."""
    for path in folder.glob(f".*.*{_UNFINISHED}"):
        path.unlink(missing_ok=True)


def remove_abandoned(folder: Path) -> None:
    """Remove files that `atomic` left on any machine, if they were not written to for an hour; others may be at work.

    The time is that of a new file, because the clock of a machine that shares the folder may differ.
    """
    left = [*folder.glob(f".*.*{_UNFINISHED}")]
    if left:
        with contextlib.suppress(OSError), tempfile.TemporaryFile(dir=folder) as file:
            now = os.fstat(file.fileno()).st_mtime
            for path in left:
                if path.lstat().st_mtime < now - _ABANDONED:
                    path.unlink(missing_ok=True)


@functools.lru_cache(maxsize=64)  # a process looks once into a folder, however many files it writes there
def _sweep(folder: Path) -> None:
    """Remove files that killed processes of this machine left by `atomic`; others may be at work in the folder."""
    for path in folder.glob(f".*.{_HERE}.*{_UNFINISHED}"):
        process = path.name.removesuffix(_UNFINISHED).rpartition(".")[2]
        if process.isdecimal() and not _is_alive(int(process)):
            path.unlink(missing_ok=True)


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


def write_bytes(path: Path, content: bytes | bytearray) -> None:
    """Write a file of this content, atomically."""
    with atomic(path, lambda: len(content)) as unfinished:
        unfinished.write_bytes(content)


def write_json(path: Path, value: Any) -> None:
    """Write `value`, atomically."""
    write_bytes(path, (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode())


def sha256(path: Path) -> str:
    """Compute the checksum of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
