"""`manifest.json` beside prepared parallel text: its settings, its inputs, counts, and its files."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from tupe.data.binary import check_contents
from tupe.data.corpus.manifest import DICTIONARY, MODEL, NAME
from tupe.data.translation.cleaning import Cleaning
from tupe.errors import UserError
from tupe.files import check_checksums, read

MADE_BY = "tupe prepare-translation"
_MENDING = "remove the folder and prepare it again"


@dataclass(frozen=True)
class Settings:
    """Settings that the result depends on, beside the files."""

    languages: tuple[str, str]  # endings of the source and target files
    vocab_size: int  # symbols of the joint dictionary, fairseq's own included
    model_type: str  # SentencePiece's `bpe` or `unigram`
    lower_case: bool  # fold case in the SentencePiece model; scores are then of lower-cased text
    cleaning: Cleaning  # limits of the training data

    def __post_init__(self) -> None:
        if self.languages[0] == self.languages[1]:
            raise UserError(f"source and target language are both {self.languages[0]}: give two.")

    @property
    def dictionaries(self) -> tuple[str, ...]:
        """The names of the one dictionary: its own, and those of both languages, which fairseq reads."""
        return (DICTIONARY, *(f"dict.{language}.txt" for language in self.languages))


@dataclass(frozen=True)
class Content:
    """Contents of the file."""

    version: ClassVar[int] = 2
    settings: Settings  # what the user asked for
    files: dict[str, dict[str, str]]  # by split, the SHA-256 of each file that was read
    splits: dict[str, dict[str, int]]  # lines, tokens, and what was left out, of each split
    versions: dict[str, str]
    sizes: dict[str, int]
    checksums: dict[str, str]  # SHA-256 of each

    @classmethod
    def load(cls, folder: Path, everything: bool = False) -> "Content":
        """Read the manifest of a folder, and check its files; with `everything` all checksums, else the vocabulary's.

        Raises:
            UserError: if there is none, or if a file is missing, cut or not the one that was written.
        """
        content = cls.with_vocabulary(folder)
        check_contents(folder, content.sizes, content.checksums if everything else {}, MADE_BY, _MENDING)
        return content

    @classmethod
    def with_vocabulary(cls, folder: Path) -> "Content":
        """Read the manifest of a folder, and check only its vocabulary. Raise what `load` raises."""
        content = read(folder / NAME, cls, MADE_BY, f"give the folder that {MADE_BY} wrote, whole")
        vocabulary = (MODEL, *content.settings.dictionaries)
        for name in vocabulary:
            if name not in content.checksums:
                raise UserError(f"{folder / NAME} does not name {name}: {_MENDING}.")
        check_checksums(folder, {name: content.checksums[name] for name in vocabulary}, MADE_BY, _MENDING)
        return content
