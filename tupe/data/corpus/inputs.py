"""Find the files that a corpus is made of."""

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tupe.data.languages import is_language
from tupe.util import UserError

# WikiExtractor names its files wiki_00, wiki_01, ..., packed ones wiki_00.bz2.
_TEXT = re.compile(r"(?:.*\.(?:txt|text|json|jsonl)|wiki_\d+)(?:\.(?:xz|gz|bz2))?|.*\.(?:xz|gz|bz2)", re.DOTALL)


@dataclass(frozen=True)
class Input:
    """A text file; a book is one document. `name` is its path from the named file or folder on.

    `language` is empty in a corpus of one language.
    """

    path: Path
    book: bool
    name: str
    language: str = ""


@dataclass(frozen=True)
class Identity:
    """Properties by which an input is recognised as the same file, wherever it lies."""

    name: str
    book: bool
    bytes: int
    modified: int
    language: str = ""

    @classmethod
    def of(cls, file: Input) -> "Identity":
        """Return the identity of a file as it is now."""
        found = file.path.stat()
        return cls(file.name, file.book, found.st_size, found.st_mtime_ns, file.language)


def find(inputs: list[Path], books: list[Path], languages: Sequence[Path] = ()) -> list[Input]:
    """List the files named, and those in the folders named, by language, then in the order given.

    In a corpus of many languages, inputs are named as `de=FILE`, or lie in folders, `languages`, where files and
    folders are called by their language: `de.txt.xz`, `de/`.

    Raises:
        UserError: a folder has no text, or only some inputs have a language.
    """
    named = [(*_language(name), book) for names, book in ((inputs, False), (books, True)) for name in names]
    for folder in languages:
        there = sorted(path for path in folder.iterdir() if path.is_dir() or _is_text(path))
        named += [(path.name.partition(".")[0], path, False) for path in there]
    found = [
        Input(file.resolve(), book, str(file.relative_to(name.parent)), language)
        for language, name, book in sorted(named, key=lambda one: one[0])  # stable
        for file in _files(name)
    ]
    if len({bool(file.language) for file in found}) != 1:
        raise UserError("Expected text files, either all with a language (de=FILE) or none.")
    return found


def _language(name: Path) -> tuple[str, Path]:
    """Split `de=FILE` into language and path; a file that has the whole name is that file."""
    language, _, path = str(name).partition("=")
    return (language, Path(path)) if path and is_language(language) and not name.exists() else ("", name)


def _files(name: Path) -> list[Path]:
    if not name.is_dir():
        return [name]
    paths = (Path(folder, file) for folder, _, files in os.walk(name, followlinks=True) for file in files)
    files = sorted(filter(_is_text, paths))
    if not files:
        raise UserError(f"{name} has no text files. Expected .txt, .xz, .gz, .bz2, .json or wiki_00, wiki_01, ...")
    return files


def _is_text(path: Path) -> bool:
    return _TEXT.fullmatch(path.name) is not None and not path.name.startswith(".")
