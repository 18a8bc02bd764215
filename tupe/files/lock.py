"""Locks that end with the process that holds them, however it ends."""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from tupe.errors import UserError


@contextlib.contextmanager
def lock(path: Path, wait: bool = False) -> Iterator[IO | None]:
    """Yield the locked file, or None if another process has it and `wait` is false.

    The lock is released by the last process that has the file open, however that ends; a child that inherits the file
    (`pass_fds`) holds it too. The file stays unless the holder of the lock removes it.

    Raises:
        UserError: if the folder cannot be made or written.
    """
    while True:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            file = path.open("a")
        except OSError as error:
            raise UserError(f"{path.parent} cannot hold {path.name} ({error.strerror}): give another folder.") from None
        with file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            except BlockingIOError:
                yield None
                return
            if _is_still(file, path):
                yield file
                return


def _is_still(file: IO, path: Path) -> bool:
    """Tell whether the open file is the one at `path`: the last holder of the lock may have removed that."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False
