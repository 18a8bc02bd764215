"""Documents in text files: plain text, books, WikiExtractor's output."""

import bz2
import gzip
import io
import json
import lzma
import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from tupe.data.languages import is_language
from tupe.data.manifest import Identity
from tupe.data.text import unescape
from tupe.util import UserError

# WikiExtractor names its files wiki_00, wiki_01, ..., packed ones wiki_00.bz2.
_TEXT = re.compile(r"(?:.*\.(?:txt|text|json|jsonl)|wiki_\d+)(?:\.(?:xz|gz|bz2))?|.*\.(?:xz|gz|bz2)", re.DOTALL)
_PACKED = {b"\x1f\x8b": gzip.open, b"BZh": bz2.open, b"\xfd7zXZ": lzma.open}
_JSON = re.compile(rb'\{\s*"\w+"\s*:')

# Bounds on what is held in memory. A longer line or document is cut, and counted.
LINE_CHARACTERS = 1 << 20
JSON_LINE_CHARACTERS = 64 << 20
DOCUMENT_CHARACTERS = 8 << 20


def find(inputs: list[Path], books: list[Path], languages: Sequence[Path] = ()) -> list[tuple[Path, Identity]]:
    """List the files named, and those in the folders named, by language, then in the order given.

    In a corpus of many languages, inputs are named as `de=FILE`, or lie in folders, `languages`, where files and
    folders are called by their language: `de.txt.xz`, `de/`.

    Raises:
        UserError: no text is found, or only some inputs have a language.
    """
    named = [(*_language(name), book) for names, book in ((inputs, False), (books, True)) for name in names]
    for folder in languages:
        there = sorted(path for path in folder.iterdir() if path.is_dir() or _is_text(path))
        named += [(path.name.partition(".")[0], path, False) for path in there]
    found = []
    for language, name, book in sorted(named, key=lambda one: one[0]):  # stable
        for file in _files(name):
            about = file.stat()
            path = str(file.relative_to(name.parent))
            found.append((file, Identity(path, book, about.st_size, about.st_mtime_ns, language)))
    if len({bool(identity.language) for _, identity in found}) != 1:
        raise UserError("Expected text files (.txt, .xz, .json, wiki_00, ...), all with a language (de=FILE) or none.")
    return found


def _language(name: Path) -> tuple[str, Path]:
    """Split `de=FILE` into language and path; a file that has the whole name is that file."""
    language, _, path = str(name).partition("=")
    return (language, Path(path)) if path and is_language(language) and not name.exists() else ("", name)


def _files(name: Path) -> list[Path]:
    """List a file, or the text files in a folder and below it."""
    if not name.is_dir():
        return [name]
    paths = (Path(folder, file) for folder, _, files in os.walk(name, followlinks=True) for file in files)
    return sorted(filter(_is_text, paths))


def _is_text(path: Path) -> bool:
    """Tell by its name whether a file in a folder is text."""
    return _TEXT.fullmatch(path.name) is not None and not path.name.startswith(".")


def documents_of(path: Path, book: bool, counts: Counter) -> Iterator[list[str]]:
    """Yield the documents of a file, each as its lines that are not empty, with `&amp;` and the like as characters.

    Args:
        path: text, plain or packed by xz, gzip or bzip2: a paragraph a line and an empty line between documents,
            or WikiExtractor's `<doc>` elements, or its JSON lines. Bytes that are not UTF-8 become surrogate escapes.
        book: the whole file is one document.
        counts: gets `bytes` and `lines` that were read, and by the reason the lines that are in no document.
    """
    document: list[str] = []
    size = 0
    for line in _text(path, book, counts):
        if line is not None and not (line := unescape(line).replace("\n", " ").strip()):
            counts["empty lines"] += 1
        elif line is not None:
            document.append(line)
            size += len(line)
            if size >= DOCUMENT_CHARACTERS:
                counts["long documents cut"] += 1
        if document and (line is None or size >= DOCUMENT_CHARACTERS):
            yield document
            document, size = [], 0
    if document:
        yield document


def open_packed(path: Path) -> BinaryIO:
    """Open a file for reading, unpacking what its first bytes say it is packed by."""
    with path.open("rb") as file:
        start = file.read(8)
    unpack = next((function for magic, function in _PACKED.items() if start.startswith(magic)), open)
    return unpack(path, "rb")


def _text(path: Path, book: bool, counts: Counter) -> Iterator[str | None]:
    """Yield the lines of a file's text, and None at the end of each document."""
    with open_packed(path) as file:
        head = file.peek(1 << 12).removeprefix(b"\xef\xbb\xbf").lstrip()
        text = io.TextIOWrapper(file, encoding="utf-8-sig", errors="surrogateescape", newline="\n")
        if not book and _JSON.match(head):
            yield from _json_lines(text, counts)
            return
        elements = head.startswith(b"<doc ") and not book
        for line in _lines(text, counts, LINE_CHARACTERS):
            if elements and (line.startswith("<doc ") or line == "</doc>"):
                counts["tags of documents"] += 1
                yield None
            else:
                yield line
                if not (line or elements or book):
                    yield None


def _json_lines(text: io.TextIOWrapper, counts: Counter) -> Iterator[str | None]:
    """Yield the lines of each record, and None at its end."""
    for line in _lines(text, counts, JSON_LINE_CHARACTERS):
        try:
            lines = json.loads(line)["text"].split("\n")
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            counts["lines that are no JSON object with a text"] += 1
            continue
        counts["lines"] += len(lines) - 1  # a record holds the lines of a document
        yield from lines
        yield None


def _lines(text: io.TextIOWrapper, counts: Counter, limit: int) -> Iterator[str]:
    """Yield lines without the white space around them; one of more than `limit` characters comes in pieces."""
    whole = True
    while line := text.readline(limit):
        counts["bytes"] += len(line.encode("utf-8", "surrogateescape"))
        counts["lines"] += 1
        if not whole:
            counts["long lines cut"] += 1
        whole = line.endswith("\n")
        yield line.strip()
