"""Drop lines with too many rare words: foreign text, lists of names, rests of markup.

Words are counted by their hash, in a table of fixed size, so memory does not grow with the corpus. Two words that
share a place may pass for frequent; a frequent word never passes for rare. The papers give no numbers; these are ours.
"""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from zlib import crc32

import numpy as np

from tupe.data.text.memo import Memo
from tupe.util import atomic

RARE = 5  # a word that occurs less often is rare
SHARE = 0.3  # a line with a larger share of rare words goes
_PLACES = 1 << 25


def save_counts(words: Counter, path: Path) -> None:
    """Write how often the words of a part occur, by their places."""
    counts = np.array([list(map(_place, words)), list(words.values())], dtype="<u4")
    path.write_bytes(counts.tobytes())


def add_up(counts: Iterable[Path], path: Path) -> None:
    """Add up the counts of parts and write, for each place, whether its words are rare."""
    total = np.zeros(_PLACES, dtype=np.uint32)
    for part in counts:
        places, numbers = np.fromfile(part, dtype="<u4").reshape(2, -1)
        np.add.at(total, places, numbers)
    with atomic(path) as unfinished, unfinished.open("wb") as file:
        np.save(file, total < RARE)


class RareWords:
    """The rare words of a corpus, which `add_up` wrote. The file is mapped, and shared by the processes."""

    def __init__(self, path: Path) -> None:
        rare = np.load(path, mmap_mode="r")
        self._rare = Memo(lambda word: bool(rare[_place(word)]))

    def without(self, lines: list[str]) -> list[str]:
        """Return the lines that have few enough."""
        in_words = ((line, line.split()) for line in lines)
        return [line for line, words in in_words if sum(map(self._rare.__getitem__, words)) <= SHARE * len(words)]


def _place(word: str) -> int:
    return crc32(word.encode()) % _PLACES
