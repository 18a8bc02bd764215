"""The folder of unfinished work: what a step did with a part is not done again after an interruption.

The inputs are divided into parts of some megabytes of text, which depend on the inputs alone, not on processes or
interruptions. A step reads files of a part and writes others. Its counts, written last, say that it is done.
"""

import sys
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tqdm import tqdm

from tupe.data.parallel import Map
from tupe.util import read_json, write_json


@dataclass(frozen=True)
class Part:
    """A part of the inputs, in the folder of the work."""

    folder: Path
    name: str

    def path(self, step: str, kind: str) -> Path:
        """Return a file of a step; `kind` is the end of its name."""
        return self.folder / step / f"{self.name}.{kind}"

    def write(self, step: str, kind: str, content: bytes | bytearray) -> None:
        path = self.path(step, kind)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)

    def is_done(self, step: str) -> bool:
        return self.path(step, "json").exists()

    def counts(self, step: str) -> Counter:
        return Counter(read_json(self.path(step, "json")))

    def finish(self, step: str, counts: Counter) -> None:
        write_json(self.path(step, "json"), counts)


def total(step: str, parts: Iterable[Part]) -> Counter:
    """Add up what a step counted in all parts."""
    counts: Counter = Counter()
    for part in parts:
        counts.update(part.counts(step))
    return counts


def each(
    step: str, parts: list[Part], map_: Map, function: Callable[[Any], object], task: Callable[[Part], Any]
) -> None:
    """Run `function(task(part))` for the parts that a step is not done with; `function` calls `part.finish`."""
    sizes = {part: part.counts("scan")["bytes"] for part in parts}
    todo = [part for part in parts if not part.is_done(step)]
    with progress(step, sum(sizes.values()), sum(sizes.values()) - sum(map(sizes.__getitem__, todo))) as bar:
        for part, _ in zip(todo, map_(function, map(task, todo))):
            bar.update(sizes[part])


def progress(step: str, size: int, done: int = 0) -> tqdm:
    """Return a bar with MB/s and the time left; in a log, a line a minute."""
    interval = 0.2 if sys.stderr.isatty() else 60
    return tqdm(desc=f"{step:<10}", total=size, initial=done, unit="B", unit_scale=True, mininterval=interval)
