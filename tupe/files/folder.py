"""A folder that a command owns: one process at a time, one content, and no files of others.

    with own(out, "scripts/finetune_glue.sh", {"checkpoint": sha256(checkpoint), "settings": settings}):
        ...                                  # what is made here; files by `atomic`, folders by `whole_folder`

- A lock: another process is told to wait, and the lock ends with the process that holds it, however it ends.
- An identity, `.tupe.json` in the folder: what made it, and of what. With the same identity a command goes on where it
  stopped. With another checkpoint, input or setting it is refused, and the message names the first difference.
- A folder without an identity is taken only if it is empty or new. Files of others are never written over or removed:
  a command removes, by name, only what it made itself.
- Whole or absent: the file that marks the end (a manifest, a result) is written last, atomically. If an error comes
  before anything was made, the folder is left as it was.
"""

import contextlib
import json
import os
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, ClassVar

from tupe.errors import UserError
from tupe.files.atomic_files import remove_unfinished
from tupe.files.lock import lock
from tupe.files.typed import read, write

_OURS = ".tupe."
IDENTITY, LOCK = f"{_OURS}json", f"{_OURS}lock"


@dataclass(frozen=True)
class Identity:
    """The identity of a folder: what made it, and of what."""

    version: ClassVar[int] = 1
    made_by: str
    of: dict[str, Any]  # checksums of the inputs, settings, versions: all that the contents depend on, as JSON has it


@dataclass(frozen=True)
class Owner:
    """A command that makes a folder from the inputs and settings `of`."""

    folder: Path  # new, empty, or owned before
    made_by: str
    of: dict[str, Any]
    besides: Collection[str] | None = ()  # names that may be in it before it is owned; None for any
    mending: str = "choose another folder"  # what to do about a folder that holds something else
    # Whether the folder holds something to keep. Until it does, it may get another identity; after that, it gets none.
    is_begun: Callable[[], bool] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "of", json.loads(json.dumps(self.of)))  # as JSON gives it back: tuples are lists

    def check(self) -> Identity | None:
        """Return the identity of the folder, if it has one. Raise a `UserError` if it holds something else."""
        folder, made_by, mending = self.folder, self.made_by, self.mending
        found = identity(folder, mending)
        if found is None:
            others = [] if self.besides is None else [name for name in _names(folder) if name not in self.besides]
            if others:
                names = ", ".join(others[:3]) + (", ..." if len(others) > 3 else "")
                raise UserError(f"{folder} holds what is not of {made_by} ({names}): {mending}.")
        elif found.made_by != made_by:
            raise UserError(f"{folder} is of {_short(found.made_by)}, not of {made_by}: {mending}.")
        else:
            differs = difference(found.of, self.of)
            if differs and (self.is_begun is None or self.is_begun()):
                raise UserError(f"{folder} was begun with {differs}: {mending}.")
        return found

    @contextlib.contextmanager
    def hold(self, wait: bool = False) -> Iterator[IO]:
        """Lock the folder until the block ends, making it if need be; with `wait`, wait for other processes to end.

        Yields:
            The locked file; a child that gets it by `pass_fds` holds the folder too.

        Raises:
            UserError: if another process is working there, or if the folder holds something else.
        """
        folder = self.folder
        _check_place(folder)
        at_work = os.path.lexists(folder / LOCK)
        try:
            self.check()  # before a lock is left in a folder of others
        except UserError:
            # a process that was or is at work there may give it up
            if not (wait and (at_work or os.path.lexists(folder / LOCK))):
                raise
        new = [path for path in (folder, *folder.parents) if not path.exists()]
        with lock(folder / LOCK, wait) as mine:
            if mine is None:
                raise UserError(f"another process is working in {folder}: wait for it to end, or end it.")
            found = self.check()  # again: another process may have begun since
            remove_unfinished(folder)  # left by a process that was killed
            if (found is None or found.of != self.of) and (found or not (self.is_begun and self.is_begun())):
                write(folder / IDENTITY, Identity(self.made_by, self.of))
            before = _names(folder)
            try:
                yield mine
            except BaseException:
                if found is None and _names(folder) == before:
                    _leave(folder, new)
                raise


def own(folder: Path, made_by: str, of: dict[str, Any], wait: bool = False, **more: Any) -> AbstractContextManager[IO]:
    """Hold a folder that `made_by` makes from `of`; `more` are fields of `Owner`. Raise what `Owner.hold` raises."""
    return Owner(folder, made_by, of, **more).hold(wait)


def move_into(folder: Path, made: Path, names: Iterable[str], made_by: str) -> None:
    """Move files of the folder `made` to their places in `folder`; after an interruption, move the rest.

    Raises:
        UserError: if something else is in the place of a file, before any is moved.
    """
    left = [name for name in names if (made / name).exists()]
    for place in (folder / name for name in left):
        foreign = place.parent if place.parent.is_file() else place
        if os.path.lexists(foreign):
            raise UserError(f"{foreign} is there, but not of {made_by}: move it away, and start again.")
    for name in left:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (made / name).replace(folder / name)


def identity(folder: Path, mending: str = "choose another folder") -> Identity | None:
    """Read the identity of a folder, None if it has none. Raise a `UserError` if it is damaged."""
    path = folder / IDENTITY
    return read(path, Identity, "tupe", mending) if os.path.lexists(path) else None


def difference(found: Any, asked: Any, name: str = "") -> str | None:
    """Describe the first difference of two values of JSON, as `settings.lr = 2e-05, not 3e-05`; None for equal ones."""
    if isinstance(found, dict) and isinstance(asked, dict):
        for key in dict.fromkeys((*asked, *found)):
            inner = difference(found.get(key), asked.get(key), f"{name}.{key}" if name else str(key))
            if inner is not None:
                return inner
        return None
    if found == asked:
        return None
    texts = _text(found), _text(asked)
    same = next((place for place, pair in enumerate(zip(*texts)) if len({*pair}) > 1), min(map(len, texts)))
    return f"{name} = {_short(found, same)}, not {_short(asked, same)}"


def _text(value: Any) -> str:
    return "unset" if value is None else value if isinstance(value, str) and value.isprintable() else repr(value)


def _short(value: Any, same: int = 0) -> str:
    """Show a value in one line. A long one is cut, also before the place up to which another is the same."""
    text = _text(value)
    text = f"...{text[same - 40 :]}" if len(text) > 100 and same > 40 else text
    return text if len(text) <= 100 else f"{text[:97]}..."


def _check_place(folder: Path) -> None:
    if os.path.lexists(folder) and not folder.is_dir():
        what = "a link to nothing" if folder.is_symlink() and not folder.exists() else "not a folder"
        raise UserError(f"{folder} is {what}: give the name of a folder to write.")
    place = folder.absolute()
    first = next(path for path in (*place.parents, place) if os.path.lexists(path))  # `/` has no parent
    if not first.is_dir():
        raise UserError(f"{first} is not a folder, so that {folder} cannot be in it: give another name.")


def _names(folder: Path) -> list[str]:
    """List the names in a folder except `.tupe.*`: its identity, its lock and what a training keeps there."""
    try:
        names = sorted(os.listdir(folder))
    except FileNotFoundError:
        return []
    ours = (_OURS, f".{_OURS}")  # the name of a file that is being written begins with one dot more
    return [name for name in names if not name.startswith(ours)]


def _leave(folder: Path, new: list[Path]) -> None:
    """Remove the identity, the lock, what a training kept there, and the folders that were made for it."""
    for path in folder.glob(f"{_OURS}*"):
        path.unlink(missing_ok=True)
    with contextlib.suppress(OSError):  # others have put something there since
        for path in new:
            path.rmdir()
