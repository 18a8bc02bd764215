"""Put symbols and rows in the order of fairseq's dictionaries: special symbols, then the others, `<mask>` last.

`masked_lm`, the classification tasks, the segments and the hub expect `<s> <pad> </s> <unk>` at 0 to 3. RoBERTa and
XLM-R have them there; BERT has `[CLS]` at 101. A SentencePiece model is copied. Every other tokenizer becomes a
`tokenizer.json` with the pieces in this order and without special symbols, so that no text can spell one.
"""

import itertools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from torch import Tensor

from tupe.checkpoints.foreign.names import LM_HEAD, OUTPUT, WORDS
from tupe.data.tokenizers import FAIRSEQ_SYMBOLS, FILLER, JSON, MASK, MODEL, UNKNOWN, UNKNOWN_NUMBER

SPECIAL = (*FAIRSEQ_SYMBOLS, MASK)
_UNREACHED = -1e4  # score of a symbol that no text should have
#: The kind of a tokenizer, and its file in a corpus folder by its name.
Tokenizer = tuple[str, dict[str, bytes]]


def by_role(symbols: Sequence[str | None], roles: Mapping[str, int]) -> tuple[list[str], list[int]]:
    """Order the rows of a table, whose `symbols` may lack names; `roles` are the rows of the five special symbols.

    A row gets a filler's name if it has no name, is named like a special symbol without having its role, or has the
    name of a later row. Text never contains fillers.

    Returns:
        the symbols in this plugin's order, and the original row of each.
    """
    last = {symbol: row for row, symbol in enumerate(symbols)}  # fairseq finds a repeated symbol's last row
    fillers = (name for name in map(f"{FILLER}{{:04d}}".format, itertools.count()) if name not in last)
    kept = [row for row in range(len(symbols)) if row not in roles.values()]
    names = [
        next(fillers) if symbols[row] in (None, *SPECIAL) or last[symbols[row]] != row else symbols[row] for row in kept
    ]
    rows = [*(roles[name] for name in FAIRSEQ_SYMBOLS), *kept, roles[MASK]]
    return [*FAIRSEQ_SYMBOLS, *names, MASK], rows


def reorder(weights: dict[str, Tensor], rows: list[int]) -> None:
    """Reorder the rows of each tensor that has one per symbol."""
    for name in (WORDS, OUTPUT, LM_HEAD + "bias"):
        if name in weights:
            weights[name] = weights[name][rows]


def sentence_piece(folder: Path) -> Tokenizer | None:
    """Return the SentencePiece model in a folder, or `None`."""
    found = next((path for path in (folder / MODEL, folder / "spm.model") if path.is_file()), None)
    return None if found is None else ("SentencePiece", {MODEL: found.read_bytes()})


def from_json(text: str, symbols: Sequence[str]) -> Tokenizer:
    """Return the tokenizer of a `tokenizer.json`, whose pieces are named as the `symbols` of a dictionary."""
    content = json.loads(text)
    model, added = content["model"], content["added_tokens"]
    numbers = {symbol: number for number, symbol in enumerate(symbols)}
    if model["type"] == "Unigram":
        scores = {piece: score for piece, score in model["vocab"] if piece not in SPECIAL}
        vocabulary = {"vocab": [(s, scores.get(s, _UNREACHED)) for s in symbols], "unk_id": UNKNOWN_NUMBER}
    else:
        known = {*numbers, *(t["content"] for t in added if t["special"])}
        more = [piece for piece in model["vocab"] if piece not in known] if model["type"] == "BPE" else []
        vocabulary = {"vocab": {s: n for n, s in enumerate([*symbols, *more])}, "unk_token": UNKNOWN}  # for merges
    words = [{**t, "id": numbers[t["content"]]} for t in added if not t["special"] and t["content"] in numbers]
    without = {"added_tokens": words, "post_processor": None, "truncation": None, "padding": None}
    written = {**content, **without, "model": {**model, **vocabulary}}
    return model["type"], {JSON: json.dumps(written, ensure_ascii=False).encode()}
