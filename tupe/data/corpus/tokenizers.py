"""Tokenizers from text to numbers of a corpus' dictionary: a SentencePiece model, or an imported `tokenizer.json`.

A text that spells `<mask>` or another special symbol gets letters or the unknown symbol: only training puts masks.
"""

from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tupe.data.corpus.vocabulary import (
    FAIRSEQ_SYMBOLS,
    MASK,
    UNKNOWN_NUMBER,
    dictionary_symbols,
    open_model,
    read_symbols,
    symbols,
)
from tupe.data.text.memo import Memo

#: Names of the file of a tokenizer in a corpus' folder; the first is the one that fairseq's hub looks for.
MODEL, JSON = "sentencepiece.bpe.model", "tokenizer.json"
_SPECIAL = (*FAIRSEQ_SYMBOLS, MASK)


class Pieces(NamedTuple):
    """Pieces `(m,)`: their numbers in fairseq's dictionary, and the characters `[begin, end)` of each.

    A character of which several pieces were made (a sign that stands for a word, a fraction) belongs to all of them; a
    piece that is only a space has no character.
    """

    numbers: np.ndarray
    begin: np.ndarray
    end: np.ndarray

    def span(self, first: int, last: int) -> tuple[int, int] | None:
        """Return the first and last piece that hold the characters `first` to `last`; None if no piece does."""
        begin = int(np.searchsorted(self.end, first, side="right"))  # the first that ends behind `first`
        end = int(np.searchsorted(self.begin, last, side="right")) - 1
        return (begin, end) if begin <= end else None


class SentencePieceTokenizer:
    """The tokenizer of a SentencePiece model and a dictionary of its pieces, in any order.

    `symbols` are those of the dictionary by their numbers, without `<mask>`. The dictionary is fairseq's `dict.txt`, by
    default what `write_dictionary` writes for the model.

    `by_words` asks SentencePiece once for a word, which is faster. It is right for BPE, whose pieces are merged within
    a word; `unigram` adds scores up over a line, and rounding may break a tie otherwise.
    """

    def __init__(self, model: Path, dictionary: Path | None = None, by_words: bool = False) -> None:
        self._model = open_model(model)
        self.symbols = dictionary_symbols(model) if dictionary is None else read_symbols(dictionary)
        self._numbers = _numbers(symbols(model), self.symbols)
        self._blank = self._model.piece_to_id("▁")
        self._words = Memo(self.__call__) if by_words else None

    def __call__(self, text: str) -> list[int]:
        """Return the numbers of a text."""
        return [self._numbers[piece] for piece in self._model.encode(text)]

    def lines(self, lines: list[str]) -> Iterator[list[int]]:
        """Return the numbers of many lines, faster than one by one."""
        if self._words is None:
            return ([self._numbers[piece] for piece in line] for line in self._model.encode(lines, num_threads=1))
        return (list(chain.from_iterable(map(self._words.__getitem__, line.split(" ")))) for line in lines)

    def pieces(self, text: str) -> Pieces:
        """Return the pieces of a text; SentencePiece normalises it, and its own offsets lead back to the characters."""
        found = self._model.encode(text, return_type="offset_mapping")
        ids = np.array(found["ids"], dtype=np.int64)
        span = np.array(found["offsets"], dtype=np.int64).reshape(-1, 2)
        begin, end = span[:, 0], span[:, 1]
        filled = np.flatnonzero(end > begin)
        if not len(filled):
            return Pieces(*(np.zeros(0, dtype=np.int64) for _ in range(3)))
        # a piece without characters is made of the same ones as the next piece that has some
        source = filled[np.minimum(np.searchsorted(filled, np.arange(len(begin))), len(filled) - 1)]
        blank = (ids == self._blank) & (end > begin)
        begin, end = begin[source], end[source]
        begin[blank] = end[blank]
        return Pieces(np.array(self._numbers, dtype=np.int64)[ids], begin, end)

    def decode(self, symbols: list[str]) -> str:
        """Return the text that symbols of the dictionary spell."""
        return "".join(symbols).replace("▁", " ").strip()


class JsonTokenizer:
    """The tokenizer of a `tokenizer.json` without added tokens, as `tupe import` writes it.

    It has the methods of `SentencePieceTokenizer`.

    The symbols of the `dictionary`, fairseq's `dict.txt`, are names of its pieces.
    """

    def __init__(self, path: Path, dictionary: Path) -> None:
        self._tokenizer = open_json(path)
        self.symbols = read_symbols(dictionary)
        ids = self._tokenizer.get_vocab(with_added_tokens=False)
        self._numbers = dict(zip(ids.values(), _numbers(list(ids), self.symbols)))

    def __call__(self, text: str) -> list[int]:
        return [self._numbers[number] for number in self._tokenizer.encode(text, add_special_tokens=False).ids]

    def lines(self, lines: list[str]) -> Iterator[list[int]]:
        return map(self, lines)

    def pieces(self, text: str) -> Pieces:
        """Return the pieces of a text; bytes of one character all have that character."""
        found = self._tokenizer.encode(text, add_special_tokens=False)
        span = np.array(found.offsets, dtype=np.int64).reshape(-1, 2)
        begin, end = span[:, 0].copy(), span[:, 1]
        blank = np.array([text[b:e].isspace() for b, e in found.offsets], dtype=bool)
        begin[blank] = end[blank]
        return Pieces(np.array([self._numbers[number] for number in found.ids], dtype=np.int64), begin, end)

    def decode(self, symbols: list[str]) -> str:
        return self._tokenizer.decoder.decode(symbols)


#: A tokenizer of either kind.
Tokenizer = SentencePieceTokenizer | JsonTokenizer


def open_json(path: Path):
    """Open a `tokenizer.json` with the package `tokenizers`."""
    import tokenizers

    tokenizer = tokenizers.Tokenizer.from_file(str(path))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def open_tokenizer(path: Path, by_words: bool = False) -> Tokenizer:
    """Open the tokenizer in a file of a corpus' folder, whose `dict.txt` has its symbols."""
    dictionary = path.with_name("dict.txt")
    return JsonTokenizer(path, dictionary) if path.name == JSON else SentencePieceTokenizer(path, dictionary, by_words)


def _numbers(names: list[str], symbols: list[str]) -> list[int]:
    """Return the number in the dictionary of each piece; special symbols are unknown, as what it lacks is."""
    numbers = {symbol: number for number, symbol in enumerate(symbols)}
    return [
        UNKNOWN_NUMBER if name in _SPECIAL or name.startswith("madeupword") else numbers.get(name, UNKNOWN_NUMBER)
        for name in names
    ]
