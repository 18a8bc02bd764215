"""Documents between two steps: in files, and in batches that go to a process."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Callable

SPLITS = ("train", "valid")
BATCH = 1 << 19  # characters that a process gets at a time


@dataclass
class Document:
    """The lines of a document, and the split that it belongs to."""

    split: str
    lines: list[str]


@dataclass
class Result:
    """What a process makes of a batch: the text of each split, and counts of what was done."""

    text: dict[str, bytearray] = field(default_factory=lambda: {split: bytearray() for split in SPLITS})
    counts: Counter = field(default_factory=Counter)

    def add(self, split: str, lines: list[str]) -> None:
        """Adds a document; one without lines is left out."""
        if lines:
            self.text[split] += lines_as_text(lines)
            self.counts[f"{split} documents"] += 1
            self.counts[f"{split} lines"] += len(lines)


def lines_as_text(lines: list[str]) -> bytes:
    """A document in a file: its lines, then an empty line."""
    return ("\n".join(lines) + "\n\n").encode("utf-8")


def read(path: Path) -> Iterator[list[str]]:
    """The documents of a file of texts by `lines_as_text`."""
    with path.open(encoding="utf-8", newline="\n") as file:
        lines: list[str] = []
        for line in file:
            if line == "\n":
                yield lines
                lines = []
            else:
                lines.append(line[:-1])


def size(lines: list[str]) -> int:
    """Bytes of the lines."""
    return sum(len(line.encode("utf-8", "surrogatepass")) for line in lines)


def told(batches_: Iterable[list[Document]], progress: Callable[[int], object]) -> Iterator[list[Document]]:
    """The batches; `progress` is told the bytes of each that is taken."""
    for batch in batches_:
        progress(sum(size(document.lines) for document in batch))
        yield batch


def batches(documents: Iterable[Document]) -> Iterator[list[Document]]:
    """Gathers documents; the last batch may be empty, so that every file has one."""
    batch: list[Document] = []
    characters = 0
    for document in documents:
        batch.append(document)
        characters += sum(map(len, document.lines))
        if characters >= BATCH:
            yield batch
            batch, characters = [], 0
    yield batch
