"""The SentencePiece model of a corpus, fairseq's dictionary of the same symbols, and tokenizers from text to numbers.

A tokenizer is a SentencePiece model or an imported `tokenizer.json`. A text that spells `<mask>` or another special
symbol becomes letters or the unknown symbol, because only training inserts masks.
"""

import re
import textwrap
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import sentencepiece

from tupe.data.text import SPECIAL_TOKENS
from tupe.util import atomic

#: Names of the file of a tokenizer in a corpus' folder; the first is the one that fairseq's hub looks for.
MODEL, JSON = "sentencepiece.bpe.model", "tokenizer.json"
DICTIONARY = "dict.txt"
# The symbols at the start of every dictionary of fairseq, and the one that its tasks add. The SentencePiece model has
# them too, so `vocab_size` pieces are `vocab_size` symbols for the model that is trained.
UNKNOWN = "<unk>"
FAIRSEQ_SYMBOLS = ("<s>", "<pad>", "</s>", UNKNOWN)
UNKNOWN_NUMBER = FAIRSEQ_SYMBOLS.index(UNKNOWN)
MASK = "<mask>"
FILLER = "madeupword"  # prefix of fairseq's symbols that round up the size of a dictionary
#: Bytes of text that `train` should get, which takes about 1 GB of memory.
SAMPLE_BYTES = {"bpe": 100 << 20, "unigram": 48 << 20}
_THREADS = 16  # fixed, because the rounding of sums depends on the number of threads
_LONGEST = 4192  # SentencePiece skips a line of more bytes
_RESERVED = {0: " ", ord("▅"): " "}  # SentencePiece skips a line that has one of these characters


def train(
    lines: Iterable[str],
    model: Path,
    vocab_size: int,
    model_type: str,
    lower_case: bool,
    own_symbols: Sequence[str] = (MASK, *SPECIAL_TOKENS),
) -> None:
    """Train a SentencePiece model of type `bpe` or `unigram` and write it. Every line counts: long ones are cut.

    `vocab_size` includes `<s> <pad> </s> <unk>` and `own_symbols`, which are never split. If `lower_case` is true, the
    model folds case, so its pieces also fit text that is not lower-cased.
    """
    bos, pad, eos, unk = range(len(FAIRSEQ_SYMBOLS))
    with atomic(model, overwrite=True) as part, part.open("wb") as writer:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=(piece for line in lines for piece in _cut(line.translate(_RESERVED))),
            model_writer=writer,
            vocab_size=vocab_size,
            model_type=model_type,
            bos_id=bos,
            pad_id=pad,
            eos_id=eos,
            unk_id=unk,
            user_defined_symbols=list(own_symbols),
            normalization_rule_name="nmt_nfkc_cf" if lower_case else "nmt_nfkc",
            num_threads=_THREADS,
            minloglevel=2,
        )


def _cut(line: str) -> list[str]:
    """Cut a line that SentencePiece would skip, at spaces where possible."""
    if 4 * len(line) <= _LONGEST or len(line.encode()) <= _LONGEST:
        return [line]
    return textwrap.wrap(line, _LONGEST // 4, break_on_hyphens=False)  # a character has at most 4 bytes


def write_dictionary(path: Path, symbols: Iterable[str]) -> None:
    """Write fairseq's `dict.txt` of all symbols but those that fairseq adds itself: its four, and its tasks' `<mask>`.

    SentencePiece reports no counts, so each count is 1, and `freq_weighted_replacement` draws uniformly.
    """
    listed = (symbol for symbol in symbols if symbol not in (*FAIRSEQ_SYMBOLS, MASK))
    path.write_text("".join(f"{symbol} 1\n" for symbol in listed), encoding="utf-8")


def is_piece(symbol: str) -> bool:
    """Return whether a symbol of a dictionary is neither special nor a filler."""
    return symbol not in (*FAIRSEQ_SYMBOLS, MASK) and not symbol.startswith(FILLER)


def without_spaces(piece: str) -> str:
    """Return the piece with white space escaped as in `\\u0020`, because fairseq splits `dict.txt` and text there."""
    return re.sub(r"\s", lambda space: f"\\u{ord(space[0]):04x}", piece)


def read_symbols(dictionary: Path) -> list[str]:
    """Return the symbols of a `dict.txt` that this package wrote, in the order of their numbers."""
    lines = dictionary.read_text(encoding="utf-8").split("\n")
    return [*FAIRSEQ_SYMBOLS, *(line.rpartition(" ")[0] for line in lines if line)]


def symbols(model: Path) -> list[str]:
    """Return the pieces of a SentencePiece model by their numbers."""
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(model))
    return [pieces.id_to_piece(number) for number in range(len(pieces))]


class Pieces(NamedTuple):
    """Pieces `(m,)`: their numbers in fairseq's dictionary, and the characters `[begin, end)` of each.

    A character that became several pieces (a sign for a word, a fraction) belongs to all of them; a
    piece that is only a space has an empty range.
    """

    numbers: np.ndarray
    begin: np.ndarray
    end: np.ndarray

    def span(self, first: int, last: int) -> tuple[int, int] | None:
        """Return the first and last piece that hold the characters `first` to `last`; `None` if no piece does."""
        begin = int(np.searchsorted(self.end, first, side="right"))  # the first piece that ends after `first`
        end = int(np.searchsorted(self.begin, last, side="right")) - 1
        return (begin, end) if begin <= end else None


class SentencePieceTokenizer:
    """The tokenizer of a SentencePiece model and a dictionary of its pieces, in any order.

    `symbols` are those of the dictionary, fairseq's `dict.txt`, by their numbers, without `<mask>`.
    """

    def __init__(self, model: Path, dictionary: Path) -> None:
        self._model = sentencepiece.SentencePieceProcessor(model_file=str(model))
        self.symbols = read_symbols(dictionary)
        numbers = {symbol: number for number, symbol in enumerate(self.symbols) if is_piece(symbol)}
        self._numbers = [numbers.get(piece, UNKNOWN_NUMBER) for piece in symbols(model)]
        self._blank = self._model.piece_to_id("▁")

    def __call__(self, text: str) -> list[int]:
        """Return the numbers of a text."""
        return [self._numbers[piece] for piece in self._model.encode(text)]

    def pieces(self, text: str) -> Pieces:
        """Return the pieces of a text; SentencePiece normalizes it, and its own offsets lead back to the characters."""
        found = self._model.encode(text, return_type="offset_mapping")
        ids = np.array(found["ids"], dtype=np.int64)
        begin, end = np.array(found["offsets"], dtype=np.int64).reshape(-1, 2).T
        filled = np.flatnonzero(end > begin)
        if not len(filled):
            return Pieces(*np.zeros((3, 0), dtype=np.int64))
        # a piece without characters gets those of the next piece that has some
        source = filled[np.minimum(np.searchsorted(filled, np.arange(len(begin))), len(filled) - 1)]
        blank = (ids == self._blank) & (end > begin)
        begin, end = begin[source], end[source]
        return Pieces(np.array(self._numbers, dtype=np.int64)[ids], np.where(blank, end, begin), end)


class JsonTokenizer:
    """The tokenizer of a `tokenizer.json` as `tupe import` writes it: its pieces have the dictionary's numbers."""

    def __init__(self, path: Path, dictionary: Path) -> None:
        import tokenizers

        self._tokenizer = tokenizers.Tokenizer.from_file(str(path))
        self.symbols = read_symbols(dictionary)
        self._pieces = {symbol: self._tokenizer.id_to_token(number) for number, symbol in enumerate(self.symbols)}
        self._numbers = {number: number for number, symbol in enumerate(self.symbols) if is_piece(symbol)}

    def __call__(self, text: str) -> list[int]:
        found = self._tokenizer.encode(text, add_special_tokens=False)
        return [self._numbers.get(number, UNKNOWN_NUMBER) for number in found.ids]

    def pieces(self, text: str) -> Pieces:
        """Return the pieces of a text; the bytes of a character all map to that character."""
        found = self._tokenizer.encode(text, add_special_tokens=False)
        begin, end = np.array(found.offsets, dtype=np.int64).reshape(-1, 2).T
        blank = np.array([text[b:e].isspace() for b, e in found.offsets], dtype=bool)
        numbers = [self._numbers.get(number, UNKNOWN_NUMBER) for number in found.ids]
        return Pieces(np.array(numbers, dtype=np.int64), np.where(blank, end, begin), end)

    def decode(self, symbols: list[str]) -> str:
        """Return the text that symbols of the dictionary spell."""
        return self._tokenizer.decoder.decode([self._pieces.get(symbol, symbol) for symbol in symbols])


def open_tokenizer(path: Path) -> SentencePieceTokenizer | JsonTokenizer:
    """Open the tokenizer in a file of a corpus' folder, whose `dict.txt` has its symbols."""
    return (JsonTokenizer if path.name == JSON else SentencePieceTokenizer)(path, path.with_name(DICTIONARY))


#: Opens a tokenizer once in each process that prepares data.
kept_tokenizer = cache(open_tokenizer)
