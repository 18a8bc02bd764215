"""Cleaning: of what the plan keeps of an input file, the text after the stages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import cache

import numpy as np

from tupe.data.corpus.inputs import Input
from tupe.data.corpus.reader import documents
from tupe.data.corpus.text import Document, Result, size
from tupe.data.text.stages import TextProcessing


class Kept:
    """What the plan keeps.

    Args:
        lengths: lines of each document, of each file.
        repeated_documents: marks documents of all files that came before.
        repeated_lines: marks such lines.
        valid: marks documents that are held out.
    """

    def __init__(
        self, lengths: list[np.ndarray], repeated_documents: np.ndarray, repeated_lines: np.ndarray, valid: np.ndarray
    ) -> None:
        self._first_document = np.cumsum([0, *map(len, lengths)])
        self._first_line = np.cumsum([0, *(int(length.sum()) for length in lengths)])
        self._repeated_documents, self._repeated_lines, self._valid = repeated_documents, repeated_lines, valid

    def documents(self, number: int, file: Input) -> Iterator[Document]:
        """The documents of an input file, without what came before."""
        line = self._first_line[number]
        for place, lines in enumerate(documents(file.path, file.book, Counter()), self._first_document[number]):
            again = self._repeated_lines[line : line + len(lines)]
            line += len(lines)
            if not self._repeated_documents[place]:
                split = "valid" if self._valid[place] else "train"
                yield Document(split, [text for text, mark in zip(lines, again) if not mark])


def clean(stages: tuple[str, ...], language: str, batch: list[Document]) -> Result:
    """The batch after the text stages."""
    result = Result()
    for document in batch:
        result.counts["bytes"] += size(document.lines)
        result.add(document.split, processing(stages, language).document(document.lines, result.counts))
    return result


@cache
def processing(stages: tuple[str, ...], language: str) -> TextProcessing:
    """The text stages, made once in each process."""
    return TextProcessing(stages, language)
