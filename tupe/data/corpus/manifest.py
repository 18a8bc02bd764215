"""`manifest.json` beside a prepared corpus: how it was made, and the sizes and checksums of its files."""

import contextlib
import platform
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, ClassVar

import tupe
from tupe.data.corpus.inputs import Identity
from tupe.data.corpus.settings import Settings
from tupe.data.corpus.tokenizers import JSON, MODEL, Tokenizer, open_tokenizer
from tupe.data.text.stages import TextProcessing
from tupe.util import UserError, read_json, sha256, write_json

NAME = "manifest.json"
DICTIONARY = "dict.txt"


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

    @classmethod
    def read(cls, path: Path) -> "Content":
        record = read_json(path)
        del record["version"]
        record["settings"] = Settings(**record["settings"])
        record["inputs"] = tuple(Identity(**each) for each in record["inputs"])
        record["data"] = tuple(record["data"])
        record["counts"] = Counts(**record["counts"])
        record["languages"] = {name: Counts(**counts) for name, counts in record["languages"].items()}
        record["imported"] = record["imported"] and Imported(**record["imported"])
        return cls(**record)

    def write(self, path: Path) -> None:
        write_json(path, {"version": self.version, **asdict(self)})


@dataclass(frozen=True)
class Manifest:
    """A prepared corpus, for commands that use it."""

    folder: Path
    content: Content

    @classmethod
    def load(cls, path: Path) -> "Manifest":
        """Read a manifest, given the file or its folder.

        Raises:
            UserError: the dictionary or the tokenizer beside it is not the one that the data was encoded with.
        """
        path = path / NAME if path.is_dir() else path
        manifest = cls(path.parent, Content.read(path))
        for name, checksum in manifest.vocabulary().items():
            if sha256(path.parent / name) != checksum:
                raise UserError(f"{path.parent / name} is not the file that {path} describes. Prepare the data again.")
        return manifest

    @property
    def model(self) -> Path:
        """The file of the tokenizer: a SentencePiece model, or `tokenizer.json` of an imported model."""
        return self.folder / (JSON if JSON in self.content.checksums else MODEL)

    def vocabulary(self) -> dict[str, str]:
        """Return the checksums of the tokenizer and of the dictionary, by their names."""
        return {name: self.content.checksums[name] for name in (self.model.name, DICTIONARY)}

    def tokenizer(self) -> Tokenizer:
        return open_tokenizer(self.model)

    @property
    def dictionary(self) -> Path:
        return self.folder / DICTIONARY

    def described(self) -> dict[str, Any]:
        """Describe what the data of a task depends on: the checksums of the vocabulary, and the text processing."""
        settings = self.content.settings
        return {"corpus": self.vocabulary(), "text": {"stages": list(settings.stages), "language": settings.language}}

    def text_processing(self) -> TextProcessing:
        return TextProcessing(self.content.settings.stages, self.content.settings.language)
