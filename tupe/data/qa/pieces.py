"""Encode texts to pieces, each with the characters of the text that it stands for.

Tokenizers normalise what they read, SentencePiece by NFKC, so lengths change. Their own offsets lead back to the
characters of their input; a piece that begins a word has the space before it among its characters.
"""

from functools import cache
from pathlib import Path

import numpy as np

from tupe.data.corpus.manifest import Manifest
from tupe.data.corpus.tokenizers import Pieces
from tupe.data.text.characters import mark, repaired
from tupe.data.text.stages import KEEP_WHITE_SPACE, STAGES
from tupe.util import UserError

_REPAIR = "repair-characters"


def usable(corpus: Manifest) -> bool:
    """Tell whether a corpus kept its texts as they were, so that pieces lead back to the characters of a text."""
    return not any(STAGES[name].line and name != _REPAIR for name in corpus.content.settings.stages)


class Encoder:
    """Encoder of texts to pieces, like those of a corpus' own texts.

    Raises:
        UserError: if the corpus' text processing changes words.
    """

    def __init__(self, corpus: Manifest) -> None:
        if not usable(corpus):
            raise UserError(
                f"The text processing of {corpus.folder} changes words, so answers cannot be found in the text. "
                "Prepare the corpus with --profile sentencepiece."
            )
        self._tokenizer = corpus.tokenizer()
        self._repair = _REPAIR in corpus.content.settings.stages
        self._keep = KEEP_WHITE_SPACE in corpus.content.settings.stages

    def __call__(self, text: str) -> Pieces:
        clean, position = self._clean(text)
        numbers, begin, end = self._tokenizer.pieces(clean)
        if position is not None and len(numbers):
            blank = begin == end
            begin, end = np.where(blank, position[end - 1] + 1, position[begin * ~blank]), position[end - 1] + 1
        return Pieces(numbers, begin, end)

    def numbers(self, text: str) -> np.ndarray:
        """Return the numbers of a text's pieces without their characters, which is much faster."""
        return np.array(self._tokenizer(self._clean(text)[0]), dtype=np.int64)

    def _clean(self, text: str) -> tuple[str, np.ndarray | None]:
        """Return the text without broken characters, and where each character stood; None for unchanged places."""
        if text.isprintable() and "\ufffd" not in text:
            return text, None
        if self._keep and not self._repair:
            return "".join(" " if c in "\r\n" else c if c.isspace() else mark(c) for c in text), None
        if not self._repair:
            return "".join(" " if c.isspace() else mark(c) for c in text), None
        kept = [(i, c) for i, c in enumerate(" " if c.isspace() else repaired(c) for c in text) if c]
        position = np.array([i for i, _ in kept], dtype=np.int64)
        return "".join(c for _, c in kept), position


@cache
def encoder_of(folder: Path) -> Encoder | None:
    """Return the encoder of a corpus, None if its text processing changes words; made once in each process."""
    corpus = Manifest.load(folder)
    return Encoder(corpus) if usable(corpus) else None
