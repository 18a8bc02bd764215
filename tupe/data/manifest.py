"""`manifest.json` beside a prepared corpus: how it was made, and the sizes and checksums of its files."""

import contextlib
import platform
from dataclasses import asdict, dataclass, field, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, ClassVar

import tupe
from tupe.data.text import TextProcessing
from tupe.data.tokenizers import DICTIONARY, JSON, MODEL, Tokenizer, open_tokenizer
from tupe.util import UserError, read_json, sha256, write_json

NAME = "manifest.json"
#: The profile of a folder that `tupe import` made: no stage ran.
IMPORTED = "import"


def versions() -> dict[str, str]:
    """Return the versions of what the contents of a corpus depend on."""
    packages = ["fairseq-fixed", "fairseq", "sentencepiece", "spacy", "sacremoses", "numpy"]
    found = {"python": platform.python_version(), "tupe": tupe.__version__}
    for package in packages:
        with contextlib.suppress(PackageNotFoundError):
            found[package] = version(package)
    return found


@dataclass(frozen=True)
class Settings:
    """Settings of `tupe prepare-corpus`: everything that its contents depend on, beside the input files."""

    profile: str  # the profile that `stages` and `language` were taken from
    stages: tuple[str, ...]  # names of `tupe.data.text.STAGES`
    language: str  # language of the rules that split sentences and tokens
    vocab_size: int  # symbols of the dictionary, fairseq's own and `<mask>` included
    model_type: str  # SentencePiece's `bpe` or `unigram`, or the kind of an imported model's tokenizer
    valid_documents: int | float  # documents held out for validation, or, as a float, their share
    shards: int | None  # folders of training data, or None: as many as keep each below a gigabyte of text
    # a longer line is cut, since fairseq never splits one: `--tokens-per-sample` less 2, or fewer
    max_tokens: int
    vocab_alpha: float = 0.5  # exponent that smooths the languages' shares of the text for the vocabulary
    vocabulary: str | None = None  # checksum of a SentencePiece model taken from another corpus; None trains one

    def __post_init__(self) -> None:
        object.__setattr__(self, "stages", tuple(self.stages))  # a list in JSON

    def with_vocabulary_of(self, other: "Settings", checksum: str) -> "Settings":
        """Return these settings with the vocabulary of the corpus of `other`, whose model has this checksum."""
        taken = {name: getattr(other, name) for name in ("vocab_size", "model_type", "vocab_alpha")}
        return replace(self, **taken, vocabulary=checksum)


@dataclass(frozen=True)
class Identity:
    """Properties by which an input is recognised as the same file, wherever it lies."""

    name: str  # its path from the file or folder on that was named
    book: bool  # whether the file is one document
    bytes: int
    modified: int
    language: str = ""  # empty in a corpus of one language


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
        """Read a manifest without looking at the files beside it."""
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
        """Write the manifest, in place of an earlier one."""
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
        """Open the tokenizer of the corpus."""
        return open_tokenizer(self.model)

    @property
    def dictionary(self) -> Path:
        return self.folder / DICTIONARY

    def described(self) -> dict[str, Any]:
        """Describe what the data of a task depends on: the checksums of the vocabulary, and the text processing."""
        settings = self.content.settings
        return {"corpus": self.vocabulary(), "text": {"stages": list(settings.stages), "language": settings.language}}

    def text_processing(self) -> TextProcessing:
        """Return the text stages of the corpus, for other texts."""
        return TextProcessing(self.content.settings.stages, self.content.settings.language)
