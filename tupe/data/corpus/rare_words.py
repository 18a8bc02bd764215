"""Drops lines with too many rare words: foreign text, lists of names, debris of markup.

Words are counted by their hash, in a table of fixed size, so memory does not grow with the corpus. Two words that
share a place may pass for frequent; a frequent word never passes for rare. The papers give no numbers; these are ours.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from zlib import crc32

import numpy as np

from tupe.data.corpus.text import Document
from tupe.files import atomic

RARE = 5  # a word that occurs less often is rare
SHARE = 0.3  # a line with a larger share of rare words goes
_PLACES = 1 << 25


def places(batch: list[Document]) -> tuple[np.ndarray, np.ndarray]:
    """The places of the words of some documents, and how many words each got."""
    return np.unique(_places(line.split() for document in batch for line in document.lines), return_counts=True)


def write(counts: Iterable[tuple[np.ndarray, np.ndarray]], path: Path) -> None:
    """Adds up counts and writes, for each place, whether its words are rare."""
    total = np.zeros(_PLACES, dtype=np.uint32)
    for where, number in counts:
        total[where] += number.astype(np.uint32)
    with atomic(path) as unfinished, unfinished.open("wb") as file:
        np.save(file, total < RARE)


class RareWords:
    """The rare words of a corpus.

    Args:
        path: what `write` wrote; it is mapped, and shared by the processes.
    """

    def __init__(self, path: Path) -> None:
        self._rare = np.load(path, mmap_mode="r")

    def without(self, lines: list[str]) -> list[str]:
        """The lines that have few enough."""
        words = [line.split() for line in lines]
        rare = np.append(0, np.cumsum(self._rare[_places(words)]))  # how many there are before each word
        ends = np.cumsum([0, *map(len, words)])
        share = np.diff(rare[ends]) / np.maximum(np.diff(ends), 1)
        return [line for line, much in zip(lines, share > SHARE) if not much]


def _places(lines: Iterable[list[str]]) -> np.ndarray:
    return np.array([crc32(word.encode()) % _PLACES for words in lines for word in words], dtype=np.int64)
