"""Find the files that a corpus is made of."""

import os
import re
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tupe.data.languages import is_language
from tupe.errors import UserError

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


def find(inputs: list[Path], books: list[Path], languages: Sequence[Path] = (), out: Path | None = None) -> list[Input]:
    """List the files named, and those in the folders named, linked ones too, by language, then by name.

    In a corpus of many languages, inputs are named as `de=FILE`, or lie in folders, `languages`, where files and
    folders are called by their language, as `de.txt.xz` and `de`. Files of `books` are one document each. `out` is the
    folder that the corpus will be written to.

    Raises:
        UserError: if a name is nothing that can be read, if a folder has no text in it, if a file comes twice, if some
            inputs have a language and others have none, or if `out` lies in a folder that is read.
    """
    named = [(*_language(name), book) for names, book in ((inputs, False), (books, True)) for name in names]
    named += [(language, path, False) for folder in languages for language, path in _by_name(folder)]
    for folder in (*languages, *(path for _, path, _ in named)):
        if out is not None and folder.is_dir() and out.resolve().is_relative_to(folder.resolve()):
            raise UserError(
                f"{_printable(out)} lies in {_printable(folder)}, which is read: name a folder outside of it."
            )
    found = [
        Input(file.resolve(), book, _printable(file.relative_to(name.parent)), language)
        for language, name, book in sorted(named, key=lambda one: one[0])  # stable
        for file in _files(name)
    ]
    if len({bool(file.language) for file in found}) > 1:
        none = next(file.name for file in found if not file.language)
        raise UserError(f"{none} has no language, but others have: name it as in de={none}.")
    seen: set[Path] = set()
    for file in found:
        if file.path in seen:
            raise UserError(f"{_printable(file.path)} is among the inputs twice: name it once.")
        if not stat.S_ISREG(file.path.stat().st_mode):
            raise UserError(f"{_printable(file.path)} is a pipe or a device: an input is a file or a folder.")
        seen.add(file.path)
    if not found:
        raise UserError("there is no input: name text files, folders of them, or --books.")
    return found


def _language(name: Path) -> tuple[str, Path]:
    """Split `de=FILE` into language and path; a file that has the whole name is that file."""
    language, _, path = str(name).partition("=")
    return (language, Path(path)) if path and is_language(language) and not name.exists() else ("", name)


def _by_name(folder: Path) -> list[tuple[str, Path]]:
    """List what is in a folder, each with the language that it is called by."""
    if not folder.is_dir():
        raise UserError(
            f"there is no folder {_printable(folder)}: give --languages one with a file or folder for each."
        )
    there = [path for path in sorted(folder.iterdir()) if not path.name.startswith(".")]
    named = [path for path in there if path.is_dir() or _TEXT.fullmatch(path.name)]
    for path in named:
        if not is_language(path.name.partition(".")[0]):
            raise UserError(f"{_printable(path)} is not called by a language, as de.txt or de: rename it.")
    if not named:
        raise _no_text(folder)
    return [(path.name.partition(".")[0], path) for path in named]


def _printable(path: Path) -> str:
    """Spell out the bytes of a name that are no UTF-8."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def _files(name: Path) -> list[Path]:
    if not name.exists():
        raise UserError(f"there is no {_printable(name)}: an input is a text file or a folder of text files.")
    if not name.is_dir():
        return [name]
    files = sorted(_walk(name, frozenset()))
    if not files:
        raise _no_text(name)
    return files


def _no_text(folder: Path) -> UserError:
    return UserError(
        f"{_printable(folder)} holds no text files: .txt, .xz, .gz, .bz2, .json or wiki_00, wiki_01, ... are read."
    )


def _walk(folder: Path, above: frozenset[Path]) -> Iterator[Path]:
    """Return the text files below a folder; a link to a folder that it is in leads nowhere new."""
    here = folder.resolve()
    if here not in above:
        for path in folder.iterdir():
            if path.is_dir():
                yield from _walk(path, above | {here})
            elif _TEXT.fullmatch(path.name) and not path.name.startswith("."):
                if not path.exists():
                    raise UserError(f"{_printable(path)} is a link to nothing: remove it, or mend it.")
                yield path
