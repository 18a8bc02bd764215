"""`manifest.json` beside prepared parallel text: what it was made of, what became of it, and its files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from tupe.data.corpus.manifest import DICTIONARY, MODEL, NAME
from tupe.data.translation.cleaning import Cleaning
from tupe.errors import UserError
from tupe.files import check_checksums, check_contents, read

MADE_BY = "tupe prepare-translation"
_MENDING = "remove the folder and prepare it again"


@dataclass(frozen=True)
class Settings:
    """All that the result depends on, beside the files.

    Attributes:
        languages: of source and target, as the files end.
        vocab_size: symbols of the joint dictionary, fairseq's own included.
        model_type: of SentencePiece: `bpe` or `unigram`.
        lower_case: fold case in the SentencePiece model; scores are then of lower-cased text.
        cleaning: of the training data.
    """

    languages: tuple[str, str]
    vocab_size: int
    model_type: str
    lower_case: bool
    cleaning: Cleaning

    def __post_init__(self) -> None:
        if self.languages[0] == self.languages[1]:
            raise UserError(f"source and target language are both {self.languages[0]}: give two.")

    @property
    def dictionaries(self) -> tuple[str, ...]:
        """The names of the one dictionary: its own, and those of both languages, which fairseq reads."""
        return (DICTIONARY, *(f"dict.{language}.txt" for language in self.languages))


@dataclass(frozen=True)
class Content:
    """What the file holds.

    Attributes:
        settings: what the user asked for.
        files: by split, the SHA-256 of each file that was read.
        splits: lines, pieces, and what was left out, of each split.
        versions: of packages.
        sizes: bytes of each file that was written.
        checksums: SHA-256 of each.
    """

    version: ClassVar[int] = 2
    settings: Settings
    files: dict[str, dict[str, str]]
    splits: dict[str, dict[str, int]]
    versions: dict[str, str]
    sizes: dict[str, int]
    checksums: dict[str, str]

    @classmethod
    def load(cls, folder: Path, everything: bool = False) -> Content:
        """Reads the manifest of a folder, and checks its files.

        Args:
            folder: of the data.
            everything: check all checksums, not those of the vocabulary alone.

        Raises:
            UserError: if there is none, or if a file is missing, cut or not the one that was written.
        """
        content = read(folder / NAME, cls, MADE_BY)
        vocabulary = (MODEL, *content.settings.dictionaries)
        for name in vocabulary:
            if name not in content.checksums:
                raise UserError(f"{folder / NAME} does not name {name}: {_MENDING}.")
        check_contents(folder, content.sizes, content.checksums if everything else {}, MADE_BY, _MENDING)
        check_checksums(folder, {name: content.checksums[name] for name in vocabulary}, MADE_BY, _MENDING)
        return content
