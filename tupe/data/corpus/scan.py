"""Read the inputs once: divide their text into parts, and count and hash lines and documents.

Files are read in lots: a large file, or small ones together. After an interruption a lot is read on from its last
finished part. A packed file is unpacked again for that, which is quick.
"""

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tupe.data.corpus.inputs import Input
from tupe.data.corpus.parts import Part, Position
from tupe.data.corpus.reader import read_on
from tupe.data.corpus.text import lines_as_text
from tupe.files import write_bytes

PART = 1 << 23  # characters of a part, and bytes of small files that are read together


@dataclass(frozen=True)
class Lot:
    """Files that one process reads, one after the other, of one language."""

    folder: Path
    number: int
    files: tuple[Input, ...]

    def part(self, number: int) -> Part:
        return Part(self.folder, f"{self.number:06d}.{number:06d}")

    def parts(self) -> list[Part]:
        """List the parts that were read, and, if these are not all, the next."""
        found = [self.part(0)]
        while found[-1].is_done("scan") and found[-1].note("scan").next:
            found.append(self.part(len(found)))
        return found


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
    """Read a lot, or the rest of it, and return its bytes.

    For each part the step `scan` leaves `txt`, its documents; `lines` and `documents`, their hashes of 64 bits;
    `lengths`, the number of lines of each document, `int64`; and in its note the reader's counts and `documents`.
    """
    parts = lot.parts()
    size = sum(part.note("scan").counts.get("bytes", 0) for part in parts[:-1])
    start = parts[-2].note("scan").next if len(parts) > 1 else Position()
    for number, (documents, counts, next_) in enumerate(_divided(lot.files, start), start=len(parts) - 1):
        _write(lot.part(number), documents)
        lot.part(number).finish("scan", counts + Counter(documents=len(documents)), next_)
        size += counts["bytes"]
    return size


def _divided(files: Sequence[Input], start: Position) -> Iterator[tuple[list[list[str]], Counter, Position | None]]:
    """Yield the parts from a position on: documents, the reader's counts of them, and where the next part begins."""
    documents: list[list[str]] = []
    size, counts = 0, Counter()
    for number in range(start.file, len(files)):
        at = start if number == start.file else Position(number)
        read, before = Counter(), Counter()  # in this file since `at`, and of that in parts before this one
        for lines, settled in read_on(files[number].path, files[number].book, read, at.bytes, at.lines):
            documents.append(lines)
            size += sum(map(len, lines))
            if settled and size >= PART:
                yield (
                    documents,
                    counts + (read - before),
                    Position(number, at.bytes + read["bytes"], at.lines + read["lines"]),
                )
                documents, size, counts, before = [], 0, Counter(), Counter(read)
        counts += read - before
    yield documents, counts, None


def _write(part: Part, documents: list[list[str]]) -> None:
    text, lines, hashes = bytearray(), bytearray(), bytearray()
    for document in documents:
        digests = b"".join(map(_digest, document))
        lines += digests
        hashes += hashlib.blake2b(digests, digest_size=8).digest()
        text += lines_as_text(document)
    lengths = np.array(list(map(len, documents)), dtype=np.int64).tobytes()
    for kind, content in (("txt", text), ("lines", lines), ("documents", hashes), ("lengths", lengths)):
        write_bytes(part.path("scan", kind), content)


def _digest(line: str) -> bytes:
    return hashlib.blake2b(" ".join(line.split()).encode("utf-8", "surrogatepass"), digest_size=8).digest()
