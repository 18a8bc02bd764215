"""The folder of unfinished work: what a step did with a part is not done again after an interruption.

The inputs are divided into parts of some megabytes of text, which depend on the inputs alone, not on processes or
interruptions. A step reads files of a part and writes others. Its note, written last, says that it is done.
"""

import sys
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tqdm import tqdm

from tupe.data.parallel import Map
from tupe.files import read, write


@dataclass(frozen=True)
class Position:
    """The beginning of a part in the files of a lot: the file, and the bytes (unpacked) and lines before it."""

    file: int = 0
    bytes: int = 0
    lines: int = 0


@dataclass(frozen=True)
class Note:
    """A step's note about a part: its counts, and for the step `scan` where the lot goes on."""

    counts: dict[str, int]
    next: Position | None = None


@dataclass(frozen=True)
class Part:
    """A part of the inputs, in the folder of the work."""

    folder: Path
    name: str

    def path(self, step: str, kind: str) -> Path:
        """Return a file of a step; `kind` is the end of its name."""
        return self.folder / step / f"{self.name}.{kind}"

    def is_done(self, step: str) -> bool:
        return self.path(step, "json").exists()

    def note(self, step: str) -> Note:
        """Read the note of a step about this part."""
        return read(self.path(step, "json"), Note, "tupe prepare-corpus", f"remove {self.folder} and start again")

    def finish(self, step: str, counts: Counter, next_: Position | None = None) -> None:
        write(self.path(step, "json"), Note(dict(counts), next_))


def total(step: str, parts: Iterable[Part]) -> Counter:
    """Add up what a step counted in all parts."""
    counts: Counter = Counter()
    for part in parts:
        counts.update(part.note(step).counts)
    return counts


def each(
    step: str, parts: list[Part], map_: Map, function: Callable[[Any], object], task: Callable[[Part], Any]
) -> None:
    """Run `function(task(part))` for the parts that a step is not done with; `function` notes that it is done."""
    sizes = {part: part.note("scan").counts.get("bytes", 0) for part in parts}
    todo = [part for part in parts if not part.is_done(step)]
    with progress(step, sum(sizes.values()), sum(sizes.values()) - sum(map(sizes.__getitem__, todo))) as bar:
        for part, _ in zip(todo, map_(function, map(task, todo))):
            bar.update(sizes[part])


def progress(step: str, size: int, done: int = 0) -> tqdm:
    """Return a bar with MB/s and the time left; in a log, a line a minute."""
    interval = 0.2 if sys.stderr.isatty() else 60
    return tqdm(desc=f"{step:<10}", total=size, initial=done, unit="B", unit_scale=True, mininterval=interval)
