"""Load a checkpoint for raw text: its model, dictionary and tokenizer, and the text processing of its corpus."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairseq import hub_utils
from fairseq.data import Dictionary
from fairseq.registry import REGISTRIES

from tupe.data.corpus.manifest import DICTIONARY, NAME, Manifest
from tupe.data.corpus.tokenizers import JSON, MODEL, JsonTokenizer
from tupe.data.corpus.vocabulary import MASK
from tupe.data.glue.prepare import Content
from tupe.data.text.stages import TextProcessing
from tupe.errors import UserError
from tupe.fairseq_patches.patching import patched
from tupe.files import read, read_json, typed
from tupe.models.checkpoint_config import fitting, saved_config
from tupe.models.hub import HubInterface
from tupe.position.arguments import check_flags
from tupe.safe_load import safe_load


def load_hub(
    model_name_or_path: str,
    checkpoint_file: str,
    data_name_or_path: str,
    bpe: str | None,
    process_text: bool,
    fields: Mapping[str, Any],
) -> HubInterface:
    """Load a checkpoint as `TupeModel.from_pretrained`, which says what each argument is; `fields` are its others."""
    if half := next((name for name in ("fp16", "bf16") if fields.get(name)), None):
        raise UserError(f"from_pretrained has no {half}, which is of training: call half() or bfloat16() of its result")
    known = REGISTRIES["bpe"]["registry"]
    if bpe is not None and (not isinstance(bpe, str) or bpe not in known):
        raise UserError(f"bpe is {bpe!r:.60}, but must be one of {', '.join(known)}, or None for numbers of symbols")
    check_flags(process_text=process_text)
    folder = Path(model_name_or_path)
    checkpoint = folder / checkpoint_file
    if not checkpoint.is_file():
        raise UserError(f"there is no checkpoint {checkpoint.resolve()}: give its folder and name")
    saved_config(safe_load(checkpoint), checkpoint)  # fairseq builds whatever a file names
    data = data_folder(folder, os.fspath(data_name_or_path))
    own = {"sentencepiece_model": str(data / MODEL)} if (data / MODEL).is_file() else {}
    tokenizer = _tokenizer_json(folder, data, fields.get("sentencepiece_model"))
    from_json = tokenizer if bpe == "sentencepiece" else None
    has_model = any((place / MODEL).is_file() for place in (data, folder))
    if bpe == "sentencepiece" and not (has_model or from_json or fields.get("sentencepiece_model")):
        raise UserError(
            f"there is no {MODEL} in {data.resolve()}: give sentencepiece_model, the file in the folder of the corpus, "
            "or bpe=None for numbers of symbols"
        )
    processing = text_processing(data) if process_text else None
    with patched(), fitting(checkpoint, [*fields]):
        loaded = hub_utils.from_pretrained(  # as fairseq's `from_pretrained`, which logs the whole configuration
            os.fspath(folder),
            os.fspath(checkpoint_file),
            os.fspath(data_name_or_path),
            bpe=None if from_json else bpe,
            **{"load_checkpoint_heads": True, **own, **fields},
        )
        hub = HubInterface(loaded["args"], loaded["task"], loaded["models"][0])
    refuse_other_pieces(hub.bpe, hub.task.source_dictionary)
    if from_json:
        hub.bpe = JsonBpe(from_json)
    if processing is not None and hub.bpe is not None:
        hub.bpe = ProcessedText(hub.bpe, processing)
    return hub


def refuse_other_pieces(bpe: object, dictionary: Dictionary) -> None:
    """Raise `UserError` if most pieces of a SentencePiece model, or most symbols, are not those of the other."""
    pieces = getattr(bpe, "sp", None)
    if pieces is None:
        return
    known = {pieces.id_to_piece(number) for number in range(pieces.get_piece_size())}
    both = known.intersection(dictionary.symbols)
    if 2 * len(both) < max(len(known), len(dictionary)):
        raise UserError(
            f"sentencepiece_model has {len(known):,} pieces, and only {len(both):,} are among the {len(dictionary):,} "
            "symbols of the dictionary: give the file of the corpus' vocabulary"
        )


def data_folder(folder: Path, data: str) -> Path:
    """Return the folder of the dictionary; a name that begins with a dot is looked for from the checkpoint's folder."""
    found = (folder if data.startswith(".") else Path()) / data
    if not any(found.glob("dict*.txt")) and not (found / f"input0/{DICTIONARY}").is_file():
        dotted = ", absolute: what begins with a dot is looked for from the checkpoint's" * (found != Path(data))
        raise UserError(
            f"there is no {DICTIONARY} in {found.resolve()}: give data_name_or_path, the data's folder{dotted}"
        )
    return found


def _tokenizer_json(folder: Path, data: Path, named: str | None) -> Path | None:
    """Return an imported model's `tokenizer.json`: the file that is `named`, or one beside the data or checkpoint."""
    if named and not Path(named).is_file():
        raise UserError(f"there is no sentencepiece_model {named}: give the file of the corpus' vocabulary")
    if not named and (data / MODEL).is_file():
        return None
    places = [Path(named)] if named else [data / JSON, folder / JSON]
    return next((path for path in places if path.name == JSON and path.is_file()), None)


@dataclass(frozen=True)
class _Text:
    stages: tuple[str, ...]
    language: str


def text_processing(folder: Path) -> TextProcessing | None:
    """Return the text processing of a folder of `tupe prepare-corpus` or `tupe prepare-glue`; `None` for another.

    Raises:
        UserError: if its manifest is damaged, or asks for a package that is not there.
    """
    path = folder / NAME
    if not path.is_file():
        return None
    content = read_json(path, "tupe prepare-corpus")
    if isinstance(content, dict) and "made_of" in content:
        text = read(path, Content, "tupe prepare-glue").made_of.get("text")
        made = typed(_Text, text, f"the text processing in {path}", "tupe prepare-glue")
        return TextProcessing(made.stages, made.language)
    return Manifest.load(folder).text_processing()


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
