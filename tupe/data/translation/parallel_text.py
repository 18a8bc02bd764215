"""Read two files in parallel, where each line of the one is the translation of the same line of the other."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tupe.data.corpus.reader import open_packed
from tupe.util import UserError


@dataclass(frozen=True)
class ParallelText:
    """The two files of a split, plain or packed by gzip, xz or bzip2."""

    source: Path  # file of the language that is translated
    target: Path  # file of its translations

    @classmethod
    def find(cls, prefix: str, languages: tuple[str, str]) -> "ParallelText":
        """Find `PREFIX.en` and `PREFIX.de`, or packed ones; where there is none, reading `PREFIX.en` will fail."""
        files = []
        for language in languages:
            names = [Path(f"{prefix}.{language}{packed}") for packed in ("", ".gz", ".xz", ".bz2")]
            files.append(next(filter(Path.is_file, names), names[0]))
        return cls(*files)

    def pairs(self) -> Iterator[tuple[str, str]]:
        """Yield the pairs in order; each run of white space is one space.

        Raises:
            UserError: if the files have different numbers of lines.
        """
        for pair in itertools.zip_longest(_lines(self.source), _lines(self.target)):
            if None in pair:
                raise UserError(f"{self.source} and {self.target} have different numbers of lines.")
            yield pair


def _lines(path: Path) -> Iterator[str]:
    with open_packed(path) as file:
        for number, raw in enumerate(file):
            yield " ".join(raw.decode("utf-8" if number else "utf-8-sig").split())
