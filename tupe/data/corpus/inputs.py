"""Which files a corpus is made of."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tupe.errors import UserError

# WikiExtractor names its files wiki_00, wiki_01, ..., packed ones wiki_00.bz2.
_TEXT = re.compile(r"(?:.*\.(?:txt|text|json|jsonl)|wiki_\d+)(?:\.(?:xz|gz|bz2))?|.*\.(?:xz|gz|bz2)")


@dataclass(frozen=True)
class Input:
    """A text file; of a book the whole is one document."""

    path: Path
    book: bool

    def identity(self) -> dict[str, Any]:
        """What tells whether it is still the same file."""
        stat = self.path.stat()
        return {"path": str(self.path), "book": self.book, "bytes": stat.st_size, "modified": stat.st_mtime_ns}


def find(inputs: list[Path], books: list[Path]) -> list[Input]:
    """The files named, and those in the folders named, sorted by their names.

    Args:
        inputs: text files, or folders of them.
        books: the same, of files that are one document each.

    Raises:
        UserError: if a name is nothing that can be read, if a folder has no text in it, or if a file comes twice.
    """
    found = [Input(file.resolve(), False) for name in inputs for file in _files(name)]
    found += [Input(file.resolve(), True) for name in books for file in _files(name)]
    seen: set[Path] = set()
    for file in found:
        if file.path in seen:
            raise UserError(f"{file.path} is among the inputs twice: name it once.")
        seen.add(file.path)
    if not found:
        raise UserError("there is no input: name text files, folders of them, or --books.")
    return found


def _files(name: Path) -> list[Path]:
    if not name.exists():
        raise UserError(f"there is no {name}: an input is a text file or a folder of text files.")
    if not name.is_dir():
        return [name]
    files = sorted(
        Path(folder, file)
        for folder, _, files in os.walk(name)
        for file in files
        if _TEXT.fullmatch(file) and not file.startswith(".")
    )
    if not files:
        raise UserError(f"{name} holds no text files: .txt, .xz, .gz, .bz2, .json or wiki_00, wiki_01, ... are read.")
    return files
