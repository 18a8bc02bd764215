"""Read two files in parallel, where each line of the one is the translation of the same line of the other."""

import itertools
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

from tupe.data.corpus.reader import DAMAGED, open_packed
from tupe.errors import UserError

PACKED = ("", ".gz", ".xz", ".bz2")


@dataclass(frozen=True)
class ParallelText:
    """The two files of a split, plain or packed by gzip, xz or bzip2."""

    source: Path  # file of the language that is translated
    target: Path  # file of its translations

    @classmethod
    def find(cls, prefix: str, languages: tuple[str, str]) -> "ParallelText":
        """Find `PREFIX.en` and `PREFIX.de`, or packed ones. Raise `UserError` if one is missing."""
        files = []
        for language in languages:
            names = [Path(f"{prefix}.{language}{packed}") for packed in PACKED]
            file = next((name for name in names if name.is_file()), None)
            if file is None:
                raise UserError(
                    f"there is no {names[0]} (nor packed as .gz, .xz or .bz2): give the path without the language, of "
                    f"two files that end in .{languages[0]} and .{languages[1]}."
                )
            files.append(file)
        return cls(*files)

    def pairs(self) -> Iterator[tuple[str, str]]:
        """Yield the pairs in order, without the white space around a line.

        Raises:
            UserError: if the files have different numbers of lines, or if one cannot be read or is no UTF-8.
        """
        for source, target in itertools.zip_longest(lines(self.source), lines(self.target)):
            if source is None or target is None:
                sources, targets = (sum(1 for _ in lines(path)) for path in (self.source, self.target))
                raise UserError(
                    f"{self.source} has {sources:,} lines and {self.target} {targets:,}: line n of the one must be the "
                    "translation of line n of the other."
                )
            yield source, target


def lines(path: Path | None, keep_spaces: bool = False) -> Iterator[str]:
    """Return the lines of a text file, or of standard input.

    Each run of white space, U+2028 included, is one space unless `keep_spaces`.
    """
    if path is not None and not path.exists():
        raise UserError(f"there is no {path}: give a file of text.")
    if path is not None and path.is_dir():
        raise UserError(f"{path} is a folder: give a file of text.")
    number, name = 0, path or "standard input"
    try:
        with nullcontext(sys.stdin.buffer) if path is None else open_packed(path) as file:
            for number, raw in enumerate(file, 1):
                line = raw.decode("utf-8-sig" if number == 1 else "utf-8")
                yield line.rstrip("\r\n") if keep_spaces else " ".join(line.split())
    except UnicodeDecodeError as error:
        raise UserError(f"line {number} of {name} is no UTF-8 ({error.reason}): convert the file first.") from None
    except (OSError, *DAMAGED) as error:
        raise UserError(f"{name} cannot be read after its line {number} ({error}): get it anew.") from None
