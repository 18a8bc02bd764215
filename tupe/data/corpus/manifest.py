"""`manifest.json` beside a prepared corpus: how it was made, and the checksums of its files."""

from __future__ import annotations

import contextlib
import json
import platform
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from tupe.data.text.stages import TextProcessing
from tupe.errors import UserError
from tupe.files import sha256

NAME = "manifest.json"
MODEL = "sentencepiece.bpe.model"  # the name that fairseq's hub looks for
DICTIONARY = "dict.txt"


def versions() -> dict[str, str]:
    """The versions of what the contents of a corpus depend on."""
    packages = ["tupe", "fairseq-fixed", "fairseq", "sentencepiece", "spacy", "sacremoses", "numpy"]
    found = {"python": platform.python_version()}
    for package in packages:
        with contextlib.suppress(PackageNotFoundError):
            found[package] = version(package)
    return found


@dataclass(frozen=True)
class Manifest:
    """A prepared corpus, seen from a command that uses it.

    Attributes:
        folder: where the corpus is.
        content: what the file holds.
    """

    folder: Path
    content: dict[str, Any]

    @classmethod
    def load(cls, path: Path) -> Manifest:
        """Reads a manifest, given the file or its folder, and checks the vocabulary beside it.

        Raises:
            UserError: if it is not there or is no manifest, or if the dictionary or the SentencePiece model is another.
        """
        path = path / NAME if path.is_dir() else path
        try:
            manifest = cls(path.parent, json.loads(path.read_text(encoding="utf-8")))
            checksums = {name: manifest.content["checksums"][name] for name in (MODEL, DICTIONARY)}
        except FileNotFoundError:
            raise UserError(f"there is no {path}: give the folder that `tupe prepare-corpus` wrote.") from None
        except (ValueError, KeyError, TypeError):
            raise UserError(f"{path} is no manifest of `tupe prepare-corpus`.") from None
        for name, checksum in checksums.items():
            file = manifest.folder / name
            if not file.is_file():
                raise UserError(f"{file} is missing, which {path} names: prepare the corpus again.")
            if sha256(file) != checksum:
                raise UserError(f"{file} is not the one that {path} was written for: prepare the corpus again.")
        return manifest

    @property
    def model(self) -> Path:
        """The SentencePiece model."""
        return self.folder / MODEL

    @property
    def dictionary(self) -> Path:
        """fairseq's dictionary."""
        return self.folder / DICTIONARY

    def text_processing(self) -> TextProcessing:
        """The text stages of this corpus."""
        return TextProcessing(self.content["settings"]["stages"], self.content["settings"]["language"])
