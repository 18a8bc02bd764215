"""The tokenizer of an imported model as a file of a corpus folder.

SentencePiece is copied. Every other one becomes a `tokenizer.json` with the pieces in this plugin's order and without
special symbols, so that no text can spell one.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tupe.checkpoints.foreign.vocabulary import SPECIAL
from tupe.data.tokenizers import JSON, MODEL, UNKNOWN, UNKNOWN_NUMBER
from tupe.util import read_json

_UNREACHED = -1e4  # score of a symbol that no text should have


@dataclass(frozen=True)
class Tokenizer:
    """The tokenizer of a folder: its kind, and what writes it for the symbols of a dictionary."""

    kind: str = "none"
    content: Callable[[Sequence[str]], dict[str, bytes]] = lambda symbols: {}  # of a corpus folder's file, by its name


def sentence_piece(model: Path) -> Tokenizer:
    """Return the tokenizer of a SentencePiece model."""
    return Tokenizer("SentencePiece", lambda symbols: {MODEL: model.read_bytes()})


def from_json(text: str) -> Tokenizer:
    """Return the tokenizer of a `tokenizer.json`, whose pieces are named as the symbols of a dictionary."""
    content = json.loads(text)
    model, added = content["model"], content["added_tokens"]

    def in_our_order(symbols: Sequence[str]) -> dict[str, bytes]:
        numbers = {symbol: number for number, symbol in enumerate(symbols)}
        if model["type"] == "Unigram":
            scores = {piece: score for piece, score in model["vocab"] if piece not in SPECIAL}
            vocabulary = {"vocab": [(s, scores.get(s, _UNREACHED)) for s in symbols], "unk_id": UNKNOWN_NUMBER}
        else:
            more = [piece for piece in model["vocab"] if piece not in numbers] if model["type"] == "BPE" else []
            vocabulary = {"vocab": {s: n for n, s in enumerate([*symbols, *more])}, "unk_token": UNKNOWN}  # of merges
        words = [{**t, "id": numbers[t["content"]]} for t in added if not t["special"] and t["content"] in numbers]
        without = {"added_tokens": words, "post_processor": None, "truncation": None, "padding": None}
        written = {**content, **without, "model": {**model, **vocabulary}}
        return {JSON: json.dumps(written, ensure_ascii=False).encode()}

    return Tokenizer(model["type"], in_our_order)


def byte_level(encoder: Path, merges: Path) -> Tokenizer:
    """Return GPT-2's byte-level BPE of the files `encoder.json` and `vocab.bpe`, as fairseq has it."""
    import tokenizers

    lines = merges.read_text(encoding="utf-8").split("\n")
    pairs = [tuple(line.split(" ")) for line in lines if line.strip() and not line.startswith("#version")]
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE(read_json(encoder), pairs))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    return from_json(tokenizer.to_str())
