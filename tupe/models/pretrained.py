"""Load a checkpoint for raw text: its model, dictionary and tokenizer, and the text processing of its corpus."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fairseq import hub_utils
from torch.serialization import safe_globals

from tupe.data.manifest import DICTIONARY, NAME
from tupe.data.text import TextProcessing
from tupe.data.tokenizers import JSON, MASK, MODEL, JsonTokenizer
from tupe.models.checkpoint_config import saved_config
from tupe.models.hub import HubInterface
from tupe.patches.safe_load import fairseq_globals, safe_load
from tupe.util import read_json


def load_hub(
    model_name_or_path: str,
    checkpoint_file: str,
    data_name_or_path: str,
    bpe: str | None,
    process_text: bool,
    fields: Mapping[str, Any],
) -> HubInterface:
    """Load a checkpoint as `TupeModel.from_pretrained` says; `fields` are the remaining keyword arguments."""
    folder = Path(model_name_or_path)
    checkpoint = folder / checkpoint_file
    saved_config(safe_load(checkpoint), checkpoint)  # a model of ours; fairseq builds whatever a file names
    data = data_folder(folder, data_name_or_path)
    own = {"sentencepiece_model": str(data / MODEL)} if (data / MODEL).is_file() else {}
    from_json = _tokenizer_json(folder, data, fields.get("sentencepiece_model")) if bpe == "sentencepiece" else None
    with safe_globals(fairseq_globals()):
        loaded = hub_utils.from_pretrained(  # as fairseq's `from_pretrained`, which logs the whole configuration
            os.fspath(folder),
            os.fspath(checkpoint_file),
            os.fspath(data_name_or_path),
            bpe=None if from_json else bpe,
            **{"load_checkpoint_heads": True, **own, **fields},
        )
        hub = HubInterface(loaded["args"], loaded["task"], loaded["models"][0])
    if from_json:
        hub.bpe = JsonBpe(from_json)
    processing = text_processing(data) if process_text else None
    if processing is not None and hub.bpe is not None:
        hub.bpe = ProcessedText(hub.bpe, processing)
    return hub


def data_folder(folder: Path, data: str | os.PathLike) -> Path:
    """Return the folder of the dictionary; a name that begins with a dot is looked for from the checkpoint's folder."""
    return (folder if os.fspath(data).startswith(".") else Path()) / data


def _tokenizer_json(folder: Path, data: Path, named: str | None) -> Path | None:
    """Return an imported model's `tokenizer.json`: the file that is `named`, or one beside the data or checkpoint."""
    if not named and (data / MODEL).is_file():
        return None
    places = [Path(named)] if named else [data / JSON, folder / JSON]
    return next((path for path in places if path.name == JSON and path.is_file()), None)


def text_processing(folder: Path) -> TextProcessing | None:
    """Return the text processing of a folder of `tupe prepare-corpus` or `tupe prepare-glue`; `None` for another."""
    path = folder / NAME
    if not path.is_file():
        return None
    content = read_json(path)
    text = content["made_of"]["text"] if "made_of" in content else content["settings"]
    return TextProcessing(tuple(text["stages"]), text["language"])


class JsonBpe:
    """The `tokenizer.json` of an imported model, with the methods of a BPE of fairseq's."""

    def __init__(self, path: Path) -> None:
        self.tokenizer = JsonTokenizer(path, path.with_name(DICTIONARY))

    def encode(self, text: str) -> str:
        """Return the symbols of the dictionary, separated by spaces."""
        return " ".join(self.tokenizer.symbols[number] for number in self.tokenizer(text))

    def decode(self, symbols: str) -> str:
        """Return the text that symbols spell."""
        return self.tokenizer.decode([symbol for symbol in symbols.split(" ") if symbol])


class ProcessedText:
    """A BPE that first applies a corpus' text processing to all but `<mask>`.

    Byte-level pieces depend on a space before them, so one stays before a text and behind a mask.
    """

    def __init__(self, bpe: Any, processing: TextProcessing) -> None:
        self.bpe = bpe
        self.processing = processing

    def encode(self, text: str) -> str:
        """Return the tokens, separated by spaces."""
        parts = (self.bpe.encode(self._line(part)) for part in text.split(MASK))
        return f" {MASK} ".join(parts).strip()

    def _line(self, text: str) -> str:
        space = " " if isinstance(self.bpe, JsonBpe) and text[:1].isspace() else ""
        return space + self.processing.line(text)

    def decode(self, tokens: str) -> str:
        """Return the text, as it was after processing."""
        return self.bpe.decode(tokens)
