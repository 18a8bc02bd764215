"""`manifest.json` in the folder of a corpus: how it was made, and the checksums of its files."""

import os
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from tupe.data.parallel import Map
from tupe.data.tokenizers import DICTIONARY, JSON, MODEL
from tupe.util import UserError, read_json, sha256, write_json

NAME = "manifest.json"
REPORT = "report.json"  # in the folder of a split of questions, instead of a manifest
WORK = "work"  # folder of intermediate files
_READ = ("*.bin", "*.idx", "*.label", "*.npy", "dict*.txt", MODEL, JSON)
#: The profile of a folder that `tupe import` made: no stage ran.
IMPORTED = "import"


def checksums(folder: Path, map_: Map = map) -> dict[str, str]:
    """Compute the checksums of the files in and below a folder that a training reads, by relative path."""
    files = sorted(path for pattern in _READ for path in folder.rglob(pattern) if path.parts[len(folder.parts)] != WORK)
    return dict(zip((path.relative_to(folder).as_posix() for path in files), map_(sha256, files)))


def check_files(folder: Path) -> None:
    """Compare the files in a folder of prepared data with the checksums in its manifest, before a training.

    Raises:
        UserError: a file is missing, or is not the one that was prepared.
    """
    for path in (folder / NAME, *folder.glob(f"*/{REPORT}")):
        if path.is_file():
            _compare(path.parent, read_json(path).get("checksums", {}))


def _compare(folder: Path, known: dict[str, str]) -> None:
    """Raise a `UserError` unless each name is that of a file with its checksum."""
    for name, checksum in known.items():
        path = folder / name
        if not path.is_file() or sha256(path) != checksum:
            raise UserError(f"{path} is not the file that was prepared, or is missing. Prepare the data again.")


def with_shards(data: str) -> str:
    """Return the folders `a:b` with all shards of each corpus, `a:a/shard1:b`."""
    folders = {}  # ordered, each once
    for folder in map(Path, data.split(os.pathsep)):
        path = folder / NAME
        shards = read_json(path).get("data") if path.is_file() else None
        folders |= {str(folder / Path(shard).name): None for shard in shards or ["."]}  # never outside the folder
    return os.pathsep.join(folders)


@dataclass(frozen=True)
class Settings:
    """Settings of `tupe prepare-corpus`: everything that the corpus depends on, except the input files."""

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
    vocabulary: str | None = None  # checksum of a tokenizer taken from another corpus; None trains one


@dataclass(frozen=True)
class Manifest:
    """A prepared corpus."""

    folder: Path  # where the corpus is; not saved in the file
    settings: Settings
    checksums: dict[str, str]  # SHA-256 of each file
    inputs: list[dict[str, Any]] = field(default_factory=list)  # `Input.identity` of each
    data: list[str] = field(default_factory=list)  # folders of training data
    counts: dict[str, dict[str, int]] = field(default_factory=dict)  # by language
    imported: dict[str, Any] | None = None  # name, kind and license of the model whose vocabulary this is

    @classmethod
    def load(cls, folder: Path) -> "Manifest":
        """Read the manifest in a folder.

        Raises:
            UserError: the dictionary or the tokenizer there is not the one that the data was encoded with.
        """
        record = read_json(folder / NAME)
        known = {one.name: record[one.name] for one in fields(cls) if one.name in record}
        known["settings"] = Settings(**{**record["settings"], "stages": tuple(record["settings"]["stages"])})
        manifest = cls(folder, **known)
        _compare(folder, manifest.vocabulary())
        return manifest

    def write(self) -> None:
        """Write `manifest.json`."""
        record = asdict(self)
        del record["folder"]
        write_json(self.folder / NAME, record)

    @property
    def model(self) -> Path:
        """The file of the tokenizer: a SentencePiece model, or `tokenizer.json` of an imported model."""
        return self.folder / (JSON if JSON in self.checksums else MODEL)

    @property
    def dictionary(self) -> Path:
        return self.folder / DICTIONARY

    def vocabulary(self) -> dict[str, str]:
        """Return the checksums of the tokenizer and of the dictionary, by their names."""
        return {name: self.checksums[name] for name in (self.model.name, DICTIONARY)}

    def described(self) -> dict[str, Any]:
        """Describe what a task's data depend on: the checksums of the vocabulary, and the text processing."""
        text = {"stages": list(self.settings.stages), "language": self.settings.language}
        return {"corpus": self.vocabulary(), "text": text}
