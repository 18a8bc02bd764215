"""`manifest.json` beside a prepared corpus: how it was made, and the sizes and checksums of its files."""

import contextlib
import platform
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, ClassVar

import tupe
from tupe.data.binary import check_contents
from tupe.data.corpus.inputs import Identity
from tupe.data.corpus.settings import Settings
from tupe.data.corpus.tokenizers import JSON, MODEL, Tokenizer, open_tokenizer
from tupe.data.text.stages import TextProcessing
from tupe.errors import UserError
from tupe.files import check_checksums, read

NAME = "manifest.json"
DICTIONARY = "dict.txt"
MADE_BY = "tupe prepare-corpus"


def versions() -> dict[str, str]:
    """Return the versions of what the contents of a corpus depend on."""
    packages = ["fairseq-fixed", "fairseq", "sentencepiece", "spacy", "sacremoses", "numpy"]
    found = {"python": platform.python_version(), "tupe": tupe.__version__}
    for package in packages:
        with contextlib.suppress(PackageNotFoundError):
            found[package] = version(package)
    return found


@dataclass(frozen=True)
class Counts:
    """Bytes, lines and documents `read`; lines that `stages` changed, removed and added; what is `left` of a split."""

    read: dict[str, int]
    stages: dict[str, int]
    left: dict[str, int]


@dataclass(frozen=True)
class Imported:
    """The model that `tupe import` made a folder from."""

    name: str  # the name of its folder
    kind: str  # the kind of model
    licence: str | None  # the licence that the folder's README names
    files: dict[str, str]  # SHA-256 of each file that was read


@dataclass(frozen=True)
class Content:
    """Contents of the file."""

    version: ClassVar[int] = 2
    settings: Settings  # what the user asked for
    inputs: tuple[Identity, ...]  # files that the corpus was made from
    data: tuple[str, ...]  # folders of training data
    counts: Counts
    versions: dict[str, str]
    sizes: dict[str, int]
    checksums: dict[str, str]  # SHA-256 of each
    languages: dict[str, Counts] = field(default_factory=dict)  # counts of each, in a corpus of many languages
    imported: Imported | None = None  # the model whose vocabulary a folder without training data has


@dataclass(frozen=True)
class Manifest:
    """A prepared corpus, for commands that use it."""

    folder: Path
    content: Content

    @classmethod
    def load(cls, path: Path) -> "Manifest":
        """Read a manifest, given the file or its folder, and check the vocabulary beside it.

        Raises:
            UserError: if it is missing or no manifest, or if the dictionary or the tokenizer has changed.
        """
        if path.is_file() and path.name != NAME:
            raise UserError(f"{path} is a file: give the folder that {MADE_BY} wrote.")
        path = path / NAME if path.is_dir() else path
        manifest = cls(path.parent, read(path, Content, MADE_BY, f"give the folder that {MADE_BY} wrote, whole"))
        checksums = manifest.content.checksums
        if manifest.content.imported is not None and not {MODEL, JSON} & checksums.keys():
            raise UserError(f"{path.parent} was imported without a tokenizer: import it without --no-tokenizer.")
        vocabulary = (manifest.model.name, DICTIONARY)
        for name in vocabulary:
            if name not in checksums:
                raise UserError(f"{path} does not name {name}: prepare the corpus again.")
        check_checksums(path.parent, {name: checksums[name] for name in vocabulary}, MADE_BY)
        return manifest

    def check(self, everything: bool = False) -> None:
        """Check the size of every file, and binary data against its index; with `everything` all checksums.

        Raises:
            UserError: if a file is missing, cut or changed.
        """
        again = "remove the folder and prepare the corpus again"
        checksums = self.content.checksums if everything else {}
        check_contents(self.folder, self.content.sizes, checksums, MADE_BY, again)

    @property
    def model(self) -> Path:
        """The file of the tokenizer: a SentencePiece model, or `tokenizer.json` of an imported model."""
        return self.folder / (JSON if JSON in self.content.checksums else MODEL)

    def tokenizer(self) -> Tokenizer:
        return open_tokenizer(self.model)

    @property
    def dictionary(self) -> Path:
        return self.folder / DICTIONARY

    def described(self) -> dict[str, Any]:
        """Describe what the data of a task depends on: the checksums of the vocabulary, and the text processing."""
        settings, names = self.content.settings, (self.model.name, DICTIONARY)
        return {
            "corpus": {name: self.content.checksums[name] for name in names},
            "text": {"stages": list(settings.stages), "language": settings.language},
        }

    def text_processing(self) -> TextProcessing:
        return TextProcessing(self.content.settings.stages, self.content.settings.language)
