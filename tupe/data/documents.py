"""Documents in text files: plain text, books, WikiExtractor's output."""

import bz2
import gzip
import io
import json
import lzma
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from tupe.data.text import unescape
from tupe.util import UserError

_ENDINGS = {".txt", ".text", ".json", ".jsonl", ".xz", ".gz", ".bz2", ".zst"}
_JSON = re.compile(rb'\[?\s*\{\s*"[^"]*"\s*:')
DOCUMENT_CHARACTERS = 8 << 20  # a longer document is cut, so that one fits in memory


class Input(NamedTuple):
    """A text file of a corpus."""

    path: Path
    name: str  # path relative to the parent of the input that the user named
    language: str  # empty in a corpus of one language
    book: bool  # whether the file is one document

    def identity(self) -> dict[str, Any]:
        """Return properties that identify the file, wherever it is."""
        about = self.path.stat()
        known = {"name": self.name, "book": self.book, "language": self.language}
        return {**known, "bytes": about.st_size, "modified": about.st_mtime_ns}


def find(inputs: list[Path], books: list[Path], languages: list[Path]) -> list[Input]:
    """List the input files and the files in the input folders, by language, then in the order given.

    For a corpus of many languages, `languages` are folders in which files and folders are named by their language:
    `de.txt.xz`, `de/`.

    Raises:
        UserError: no text is found, or only some inputs have a language.
    """
    named = [("", name, book) for names, book in ((inputs, False), (books, True)) for name in names]
    for folder in languages:
        there = sorted(path for path in folder.iterdir() if path.is_dir() or _is_text(path))
        named += [(path.name.partition(".")[0], path, False) for path in there]
    found = [
        Input(path, str(path.relative_to(name.parent)), language, book)
        for language, name, book in sorted(named, key=lambda one: one[0])  # stable
        for path in _files(name)
    ]
    if len({bool(one.language) for one in found}) != 1:
        raise UserError("Found no text files (.txt, .xz, .json, wiki_00, ...), or other inputs beside --languages.")
    return found


def _files(path: Path) -> list[Path]:
    """List a file, or the text files in a folder and below it."""
    if not path.is_dir():
        return [path]
    paths = (Path(folder, file) for folder, _, files in os.walk(path, followlinks=True) for file in files)
    return sorted(filter(_is_text, paths))


def _is_text(path: Path) -> bool:
    """Return whether a file in a folder is text, judging by its name; WikiExtractor's are wiki_00, wiki_01, ..."""
    return (path.suffix.lower() in _ENDINGS or path.name.startswith("wiki_")) and not path.name.startswith(".")


def documents_of(path: Path, book: bool) -> Iterator[list[str]]:
    """Yield the documents of a file as their nonempty lines, in which characters replace references such as `&amp;`.

    Args:
        path: text, which may be compressed: a paragraph per line and an empty line between documents, or
            WikiExtractor's `<doc>` elements, or its JSON lines. Bytes that are not UTF-8 become surrogate escapes.
        book: the whole file is one document.
    """
    document: list[str] = []
    size = 0
    for line in _lines(path, book):
        if line and (line := unescape(line).replace("\n", " ").strip()):
            document.append(line)
            size += len(line)
        if document and (line is None or size >= DOCUMENT_CHARACTERS):
            yield document
            document, size = [], 0
    if document:
        yield document


def _lines(path: Path, book: bool) -> Iterator[str | None]:
    """Yield the lines of a file's text, and None at the end of each document."""
    with open_compressed(path) as file:
        head = file.peek(1 << 12).removeprefix(b"\xef\xbb\xbf").lstrip()
        encoding = "utf-16" if head.startswith((b"\xff\xfe", b"\xfe\xff")) else "utf-8-sig"
        text = io.TextIOWrapper(file, encoding=encoding, errors="surrogateescape", newline="\n")
        if book:
            yield from text
        elif _JSON.match(head):
            for record in filter(str.strip, text):
                yield from json.loads(record)["text"].split("\n")
                yield None
        elif head.startswith(b"<doc "):
            for line in text:
                yield None if line.startswith("<doc ") or line.strip() == "</doc>" else line
        else:
            for line in text:
                yield line.strip() or None


@contextmanager
def unchanged(paths: Iterable[Path]) -> Iterator[None]:
    """Raise a `UserError` at the end of the block if a file was written to while it was read."""
    before = [(path, path.stat()) for path in paths]
    yield
    for path, about in before:
        if (path.stat().st_size, path.stat().st_mtime_ns) != (about.st_size, about.st_mtime_ns):
            raise UserError(f"{path} changed while it was read. Run the command again when the file is complete.")


def _open_zstd(path: Path, mode: str) -> BinaryIO:
    from backports import zstd  # of the extra `corpus`

    return zstd.open(path, mode, options={zstd.DecompressionParameter.window_log_max: 31})  # as in zstd --long=31


_COMPRESSED = {b"\x1f\x8b": gzip.open, b"BZh": bz2.open, b"\xfd7zXZ": lzma.open, b"\x28\xb5\x2f\xfd": _open_zstd}


def open_compressed(path: Path) -> BinaryIO:
    """Open a file for reading; its first bytes decide how it is decompressed."""
    with path.open("rb") as file:
        start = file.read(8)
    unpack = next((function for magic, function in _COMPRESSED.items() if start.startswith(magic)), open)
    return unpack(path, "rb")
