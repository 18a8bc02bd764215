"""Encoding: cleaned text without lines of rare words, short sentences joined, in pieces, long lines cut."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Optional

from tupe.data.corpus.rare_words import RareWords
from tupe.data.corpus.short_sentences import join
from tupe.data.corpus.text import Document, Result, size
from tupe.data.corpus.vocabulary import UNKNOWN, Encoder


def encode(model: Path, rare: Optional[Path], joined: bool, max_tokens: int, batch: list[Document]) -> Result:
    """The batch in pieces separated by spaces.

    Args:
        model: of SentencePiece.
        rare: the rare words; None leaves all lines in.
        joined: whether short sentences are joined.
        max_tokens: pieces of a line.
        batch: cleaned documents.
    """
    result = Result()
    counts = result.counts
    for document in batch:
        lines = document.lines
        counts["bytes"] += size(lines)
        if rare is not None:
            lines = _rare_words(rare).without(lines)
            counts["drop-rare-words: removed"] += len(document.lines) - len(lines)
        if joined:
            before, lines = len(lines), join(lines)
            counts["join-short-sentences: removed"] += before - len(lines)
        encoded: list[str] = []
        for pieces in _encoder(model).lines(lines):
            counts[f"{document.split} tokens"] += len(pieces)
            counts[f"{document.split} unknown tokens"] += pieces.count(UNKNOWN)
            starts = range(0, len(pieces), max_tokens)
            encoded += (" ".join(pieces[start : start + max_tokens]) for start in starts)
            counts["no-pieces: removed"] += not starts
            counts["cut-long-lines: added"] += max(0, len(starts) - 1)
        result.add(document.split, encoded)
    return result


@cache
def _encoder(model: Path) -> Encoder:
    """Loaded once in each process."""
    return Encoder(model)


@cache
def _rare_words(path: Path) -> RareWords:
    """Mapped once in each process."""
    return RareWords(path)
