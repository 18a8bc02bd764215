"""The first reading of a file: its lines and documents are counted, and hashed to find those that came before."""

from __future__ import annotations

import hashlib
from collections import Counter
from pathlib import Path

import numpy as np

from tupe.data.corpus.inputs import Input
from tupe.data.corpus.reader import documents
from tupe.files import atomic


def scan(what: tuple[Input, Path, Path, Path]) -> Counter:
    """Reads a file.

    Args:
        what: the file, and those to write: the hash of every line and the hash of every document, 64 bits each, and
            the number of lines of every document, `int64`.

    Returns:
        The reader's counts, and `documents`.
    """
    file, lines, hashes, lengths = what
    counts: Counter = Counter()
    documents_hashed, found = bytearray(), []
    with atomic(lines) as unfinished, unfinished.open("wb") as output:
        for document in documents(file.path, file.book, counts):
            digests = b"".join(map(_digest, document))
            output.write(digests)
            documents_hashed += hashlib.blake2b(digests, digest_size=8).digest()
            found.append(len(document))
    with atomic(hashes) as unfinished:
        unfinished.write_bytes(documents_hashed)
    with atomic(lengths) as unfinished:
        unfinished.write_bytes(np.array(found, dtype=np.int64).tobytes())
    counts["documents"] = len(found)
    return counts


def _digest(line: str) -> bytes:
    return hashlib.blake2b(" ".join(line.split()).encode("utf-8", "surrogatepass"), digest_size=8).digest()
