"""Read the inputs once: divide their text into parts, and count and hash lines and documents.

Files are read in lots: a large file, or small ones together.
"""

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tupe.data.corpus.inputs import Input
from tupe.data.corpus.parts import Part
from tupe.data.corpus.reader import documents_of
from tupe.data.corpus.text import lines_as_text
from tupe.util import read_json, write_json

PART = 1 << 23  # characters of a part, and bytes of small files that are read together


@dataclass(frozen=True)
class Lot:
    """Files that one process reads, one after the other, of one language."""

    folder: Path
    number: int
    files: tuple[Input, ...]

    @property
    def done(self) -> Path:
        """The file, written last, with the number of parts."""
        return self.folder / "scan" / f"{self.number:06d}.parts.json"

    def part(self, number: int) -> Part:
        return Part(self.folder, f"{self.number:06d}.{number:06d}")

    def parts(self) -> list[Part]:
        """List the parts that were read."""
        return [self.part(number) for number in range(read_json(self.done))]


def lots(folder: Path, files: Sequence[Input]) -> list[Lot]:
    """Divide the inputs, in their order, into lots."""
    gathered: list[list[Input]] = []
    size = PART
    for file in files:
        if size >= PART or file.language != gathered[-1][-1].language:
            gathered.append([])
            size = 0
        gathered[-1].append(file)
        size += file.path.stat().st_size
    return [Lot(folder, number, tuple(some)) for number, some in enumerate(gathered)]


def scan(lot: Lot) -> int:
    """Read a lot, unless that is done, and return its bytes.

    For each part the step `scan` leaves `txt`, its documents; `lines` and `documents`, their hashes of 64 bits;
    `lengths`, the number of lines of each document, `int64`; and the reader's counts and `documents`.
    """
    if not lot.done.exists():
        number = 0
        for number, (documents, counts) in enumerate(_divided(lot.files), 1):
            part = lot.part(number - 1)
            _write(part, documents)
            part.finish("scan", counts + Counter(documents=len(documents)))
        write_json(lot.done, number)
    return sum(part.counts("scan")["bytes"] for part in lot.parts())


def _divided(files: Sequence[Input]) -> Iterator[tuple[list[list[str]], Counter]]:
    """Yield the parts: their documents, and the reader's counts of them."""
    documents: list[list[str]] = []
    size, counts, before = 0, Counter(), Counter()  # `before`: counts of the parts before this one
    for file in files:
        for lines in documents_of(file.path, file.book, counts):
            documents.append(lines)
            size += sum(map(len, lines))
            if size >= PART:
                yield documents, counts - before
                documents, size, before = [], 0, Counter(counts)
    yield documents, counts - before


def _write(part: Part, documents: list[list[str]]) -> None:
    text, lines, hashes = bytearray(), bytearray(), bytearray()
    for document in documents:
        digests = b"".join(map(_digest, document))
        lines += digests
        hashes += hashlib.blake2b(digests, digest_size=8).digest()
        text += lines_as_text(document)
    lengths = np.array(list(map(len, documents)), dtype=np.int64).tobytes()
    for kind, content in (("txt", text), ("lines", lines), ("documents", hashes), ("lengths", lengths)):
        part.write("scan", kind, content)


def _digest(line: str) -> bytes:
    return hashlib.blake2b(" ".join(line.split()).encode("utf-8", "surrogatepass"), digest_size=8).digest()
