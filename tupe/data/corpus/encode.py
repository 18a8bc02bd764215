"""Encode cleaned text: drop lines of rare words, join short sentences, tokenise, and cut long lines."""

from array import array
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from tupe.data.binary import EOS
from tupe.data.corpus import text
from tupe.data.corpus.parts import Part
from tupe.data.corpus.rare_words import RareWords
from tupe.data.corpus.short_sentences import join
from tupe.data.corpus.tokenizers import open_tokenizer
from tupe.data.corpus.vocabulary import UNKNOWN_NUMBER
from tupe.files import atomic

# Each is opened once in each process.
_tokenizer, _rare_words = cache(open_tokenizer), cache(RareWords)


@dataclass(frozen=True)
class Encoding:
    model: Path  # the file of the tokenizer, beside its dictionary
    by_words: bool  # whether SentencePiece is asked once for a word
    rare: Path | None  # the rare words; None keeps all lines
    joined: bool  # whether short sentences are joined
    max_tokens: int  # tokens of a line at most
    shards: int  # folders among which the training documents are divided


class Sequences:
    """Sequences of tokens, each ending in `</s>`."""

    def __init__(self) -> None:
        self.tokens, self.sizes = array("i"), array("i")

    def add(self, numbers: list[int]) -> None:
        self.tokens.fromlist(numbers)
        self.tokens.append(EOS)
        self.sizes.append(len(numbers) + 1)


def encode(encoding: Encoding, what: tuple[Part, int]) -> None:
    """Encode a part. `what` is the part and the number of training documents before it, which go to the shards in turn.

    The step `encode` leaves for each split its `tokens`, shard after shard, the `sizes` of its sequences, and for each
    shard how many sequences and tokens it gets (`shards`). A document is its lines and an empty line.
    """
    part, before = what
    counts: Counter = Counter()
    for split in text.SPLITS:
        shards = [Sequences() for _ in range(encoding.shards if split == "train" else 1)]
        for number, document in enumerate(text.read(part.path("clean", f"{split}.txt")), start=before):
            lines = list(_lines(document, encoding, split, counts))
            if lines:
                shard = shards[number % len(shards)]
                for line in (*lines, []):
                    shard.add(line)
                counts[f"{split} documents"] += 1
                counts[f"{split} lines"] += len(lines)
        _write(part, split, shards)
    part.finish("encode", counts)


def _lines(lines: list[str], encoding: Encoding, split: str, counts: Counter) -> Iterator[list[int]]:
    """Return the lines of a document as tokens, none of more than `max_tokens`."""
    read = len(lines)
    if encoding.rare is not None:
        lines = _rare_words(encoding.rare).without(lines)
        counts["drop-rare-words: removed"] += read - len(lines)
    if encoding.joined:
        before, lines = len(lines), join(lines)
        counts["join-short-sentences: removed"] += before - len(lines)
    counts[f"{split} words"] += sum(len(line.split()) for line in lines)
    counts[f"{split} characters"] += sum(map(len, lines))
    for numbers in _tokenizer(encoding.model, encoding.by_words).lines(lines):
        counts[f"{split} tokens"] += len(numbers)
        counts[f"{split} unknown tokens"] += numbers.count(UNKNOWN_NUMBER)
        starts = range(0, len(numbers), encoding.max_tokens)
        yield from (numbers[start : start + encoding.max_tokens] for start in starts)
        counts["no-pieces: removed"] += not starts
        counts["cut-long-lines: added"] += max(0, len(starts) - 1)


def _write(part: Part, split: str, shards: Sequence[Sequences]) -> None:
    sizes = np.array([(len(shard.sizes), len(shard.tokens)) for shard in shards], dtype=np.int64)
    for kind, arrays in (
        ("tokens", [shard.tokens for shard in shards]),
        ("sizes", [shard.sizes for shard in shards]),
        ("shards", [sizes]),
    ):
        with atomic(part.path("encode", f"{split}.{kind}")) as unfinished, unfinished.open("wb") as file:
            for values in arrays:
                values.tofile(file)
