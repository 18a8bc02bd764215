"""Read documents from text files: plain text, books, WikiExtractor's output."""

import bz2
import gzip
import json
import lzma
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

_PACKED = {b"\x1f\x8b": gzip.open, b"BZh": bz2.open, b"\xfd7zXZ": lzma.open}
_BOM = b"\xef\xbb\xbf"
_JSON = re.compile(rb'\s*\{\s*"\w+"\s*:')

# Bounds on what is held in memory. A longer line or document is cut, and counted.
LINE_BYTES = 1 << 20
JSON_LINE_BYTES = 64 << 20
DOCUMENT_CHARACTERS = 8 << 20

# A format turns a file into lines of text, and None at the end of each document.
_Text = Iterator[str | None]


def documents_of(path: Path, book: bool, counts: Counter) -> Iterator[list[str]]:
    """Yield the documents of a file, each as its lines that are not empty.

    Args:
        path: text, plain or packed by xz, gzip or bzip2: a paragraph a line and an empty line between documents,
            or WikiExtractor's `<doc>` elements, or its JSON lines. Bytes that are no UTF-8 become surrogate escapes.
        book: the whole file is one document.
        counts: gets `bytes` and `lines` that were read, and by the reason the lines that are in no document.
    """
    with open_packed(path) as file:
        head = file.peek(1 << 12)
        mark = len(_BOM) if head.startswith(_BOM) else 0
        file.seek(mark)
        yield from _documents(_format(head[mark:], book)(file, counts), counts)


def open_packed(path: Path) -> BinaryIO:
    """Open a file for reading, unpacking what its first bytes say it is packed by."""
    with path.open("rb") as file:
        start = file.read(8)
    unpack = next((function for magic, function in _PACKED.items() if start.startswith(magic)), open)
    return unpack(path, "rb")


def _format(head: bytes, book: bool) -> Callable[[BinaryIO, Counter], _Text]:
    if book:
        return _book
    if head.lstrip().startswith(b"<doc "):
        return _elements
    return _json_lines if _JSON.match(head) else _plain


def _plain(file: BinaryIO, counts: Counter) -> _Text:
    for line in _lines(file, counts, LINE_BYTES):
        if not line:
            counts["empty lines"] += 1
        yield line or None


def _book(file: BinaryIO, counts: Counter) -> _Text:
    return (line for line in _plain(file, counts) if line is not None)


def _elements(file: BinaryIO, counts: Counter) -> _Text:
    for line in _lines(file, counts, LINE_BYTES):
        if line.startswith("<doc ") or line == "</doc>":
            counts["tags of documents"] += 1
            yield None
        elif line:
            yield line
        else:
            counts["empty lines"] += 1


def _json_lines(file: BinaryIO, counts: Counter) -> _Text:
    for line in _lines(file, counts, JSON_LINE_BYTES):
        counts["lines"] -= 1  # a record holds the lines of a document
        try:
            text = json.loads(line)["text"]
            lines = text.split("\n")
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            counts["lines"] += 1
            counts["lines that are no JSON object with a text"] += 1
            continue
        counts["lines"] += len(lines)
        for part in lines:
            part = part.strip()
            if part:
                yield part
            else:
                counts["empty lines"] += 1
        yield None


def _lines(file: BinaryIO, counts: Counter, limit: int) -> Iterator[str]:
    """Return the lines of a file without the white space around them; one longer than `limit` bytes comes in pieces."""
    rest = b""
    while raw := rest + file.readline(limit + 1 - len(rest)):
        rest = b""
        if len(raw) > limit and not raw.endswith(b"\n"):
            counts["long lines cut"] += 1
            raw, rest = _cut(raw)
        counts["bytes"] += len(raw)
        counts["lines"] += 1
        yield raw.decode("utf-8", errors="surrogateescape").strip()


def _cut(raw: bytes) -> tuple[bytes, bytes]:
    """Cut in two nonempty parts: after the last space, or before the last byte that can begin a character."""
    at = raw.rfind(b" ", len(raw) // 2, -1) + 1
    if at == 0:
        at = len(raw) - 1
        while at > len(raw) - 4 and raw[at] & 0xC0 == 0x80:
            at -= 1
    return raw[:at], raw[at:]


def _documents(text: Iterable[str | None], counts: Counter) -> Iterator[list[str]]:
    document: list[str] = []
    size = 0
    for line in text:
        if line is not None:
            document.append(line)
            size += len(line)
            if size >= DOCUMENT_CHARACTERS:
                counts["long documents cut"] += 1
        if document and (line is None or size >= DOCUMENT_CHARACTERS):
            yield document
            document, size = [], 0
    if document:
        yield document
