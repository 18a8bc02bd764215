"""The folder of unfinished work: what a step has done with a part stays done when the command is started again.

The inputs are divided into parts, some megabytes of text each, which depend on the inputs alone, not on processes or
interruptions. A step reads files of a part and writes others, and its note, which says that it is done, comes last.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Optional

from tqdm import tqdm

from tupe.data.parallel import Map
from tupe.files import read, write


@dataclass(frozen=True)
class Position:
    """Where in the files of a lot the next part begins: the file, and in it bytes (unpacked) and lines before."""

    file: int = 0
    bytes: int = 0
    lines: int = 0


@dataclass(frozen=True)
class Note:
    """What a step did with a part: counts; and where, after the reading of a part, the lot goes on, if it does."""

    counts: dict[str, int]
    next: Optional[Position] = None


@dataclass(frozen=True)
class Part:
    """A part of the inputs.

    Attributes:
        folder: of the work.
        name: of the part.
    """

    folder: Path
    name: str

    def path(self, step: str, kind: str) -> Path:
        """A file of a step; `kind` is the end of its name."""
        return self.folder / step / f"{self.name}.{kind}"

    def is_done(self, step: str) -> bool:
        """Whether a step is done with this part."""
        return self.path(step, "json").exists()

    def note(self, step: str) -> Note:
        """What a step did with this part."""
        return read(self.path(step, "json"), Note, "tupe prepare-corpus", f"remove {self.folder} and start again")

    def finish(self, step: str, counts: Counter, next_: Optional[Position] = None) -> None:
        """Notes that a step is done with this part."""
        write(self.path(step, "json"), Note(dict(counts), next_))

    def drop(self, step: str, kind: str) -> None:
        """Removes a file that no other step needs any more."""
        self.path(step, kind).unlink(missing_ok=True)


def total(step: str, parts: Iterable[Part]) -> Counter:
    """What a step counted in all parts."""
    counts: Counter = Counter()
    for part in parts:
        counts.update(part.note(step).counts)
    return counts


def each(
    step: str, parts: list[Part], map_: Map, function: Callable[[Any], object], task: Callable[[Part], Any]
) -> None:
    """Runs a step over the parts that it is not done with.

    Args:
        step: its name.
        parts: all of them.
        map_: from `tupe.data.parallel.pool`.
        function: does it, and notes it.
        task: what the function gets of a part.
    """
    sizes = {part: part.note("scan").counts.get("bytes", 0) for part in parts}
    todo = [part for part in parts if not part.is_done(step)]
    with progress(step, sum(sizes.values()), sum(sizes.values()) - sum(map(sizes.__getitem__, todo))) as bar:
        for part, _ in zip(todo, map_(function, map(task, todo))):
            bar.update(sizes[part])


def progress(step: str, size: int, done: int = 0) -> tqdm:
    """A bar with MB/s and the time left; in a log, a line a minute."""
    interval = 0.2 if sys.stderr.isatty() else 60
    return tqdm(desc=f"{step:<10}", total=size, initial=done, unit="B", unit_scale=True, mininterval=interval)
