"""The pieces of a text, each with the characters of the text that it stands for.

SentencePiece normalises what it reads, by NFKC: lengths change. Its own offsets lead back to the characters it was
given; a piece that begins a word has the space before it among its characters.
"""

from pathlib import Path
from typing import NamedTuple

import numpy as np
import sentencepiece
from fairseq.data import Dictionary

from tupe.data.corpus.manifest import Manifest
from tupe.data.corpus.vocabulary import MASK, symbols
from tupe.data.text.characters import mark, repaired
from tupe.data.text.stages import STAGES
from tupe.errors import UserError

_REPAIR = "repair-characters"


class Pieces(NamedTuple):
    """Pieces `(m,)`: their numbers in fairseq's dictionary, and the characters `[begin, end)` of each.

    A character of which several pieces were made (a sign that stands for a word, a fraction) belongs to all of them; a
    piece that is only a space has no character.
    """

    numbers: np.ndarray
    begin: np.ndarray
    end: np.ndarray

    def span(self, first: int, last: int) -> tuple[int, int] | None:
        """The first and last piece that hold the characters `first` to `last`; None if no piece does."""
        begin = int(np.searchsorted(self.end, first, side="right"))  # the first that ends behind `first`
        end = int(np.searchsorted(self.begin, last, side="right")) - 1
        return (begin, end) if begin <= end else None


def usable(corpus: Manifest) -> bool:
    """Whether the texts of a corpus were not rewritten, so that its pieces lead back to the characters of a text."""
    return not any(STAGES[name].line and name != _REPAIR for name in corpus.content.settings.stages)


class Encoder:
    """Text to pieces, with the vocabulary of a corpus and as its texts were made pieces.

    Raises:
        UserError: if the corpus' text processing changes words, or its model has pieces that its dictionary lacks.
    """

    def __init__(self, corpus: Manifest) -> None:
        if not usable(corpus):
            raise UserError(
                f"the text processing of {corpus.folder} rewrites texts, so that answers could not be found in them "
                "again: prepare the corpus with --profile sentencepiece."
            )
        self._model = sentencepiece.SentencePieceProcessor(model_file=str(corpus.model))
        self._repair = _REPAIR in corpus.content.settings.stages
        self._numbers = _numbers(corpus.model, corpus.dictionary)
        self._blank = self._model.piece_to_id("▁")
        self.unknown = int(self._numbers[self._model.unk_id()])

    def __call__(self, text: str) -> Pieces:
        """The pieces of a text."""
        clean, position = self._clean(text)
        found = self._model.encode(clean, return_type="offset_mapping")
        span = np.array(found["offsets"], dtype=np.int64).reshape(-1, 2)
        begin, end = span[:, 0], span[:, 1]
        filled = np.flatnonzero(end > begin)
        if not len(filled):
            return Pieces(*(np.zeros(0, dtype=np.int64) for _ in range(3)))
        # a piece without characters of its own takes those of the next, with which it was made of one
        of = filled[np.minimum(np.searchsorted(filled, np.arange(len(begin))), len(filled) - 1)]
        blank = (np.array(found["ids"]) == self._blank) & (end > begin)
        begin, end = begin[of], end[of]
        begin[blank] = end[blank]
        if position is not None:
            begin, end = np.where(blank, position[end - 1] + 1, position[begin]), position[end - 1] + 1
        return Pieces(self._numbers[found["ids"]], begin, end)

    def numbers(self, text: str) -> np.ndarray:
        """The numbers of a text's pieces alone, in a fraction of the time."""
        return self._numbers[self._model.encode(self._clean(text)[0])]

    def _clean(self, text: str) -> tuple[str, np.ndarray | None]:
        """The text without broken characters, and where each character stood, if that is not its own place."""
        if text.isprintable() and "\ufffd" not in text:
            return text, None
        if not self._repair:
            return "".join(" " if c.isspace() else mark(c) for c in text), None
        kept = [(i, c) for i, c in enumerate(" " if c.isspace() else repaired(c) for c in text) if c]
        position = np.array([i for i, _ in kept], dtype=np.int64)
        return "".join(c for _, c in kept), position


def _numbers(model: Path, dictionary: Path) -> np.ndarray:
    """The number in fairseq's dictionary of each of SentencePiece's; a text that spells `<mask>` has it unknown."""
    known = Dictionary.load(str(dictionary))
    pieces = symbols(model)
    missing = [piece for piece in pieces if piece not in known.indices and piece != MASK]
    if missing:
        raise UserError(
            f"{dictionary} lacks {len(missing)} piece(s) of {model}, such as {missing[0]!r}: prepare the corpus again."
        )
    return np.array([known.index(piece) for piece in pieces], dtype=np.int64)
