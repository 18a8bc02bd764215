"""Encode cleaned text: drop lines of rare words, join short sentences, tokenise, and cut long lines."""

from array import array
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np

from tupe.data.binary import EOS
from tupe.data.corpus import text
from tupe.data.corpus.parts import Part
from tupe.data.corpus.rare_words import RareWords
from tupe.data.corpus.settings import Settings
from tupe.data.corpus.short_sentences import join
from tupe.data.corpus.tokenizers import open_tokenizer
from tupe.data.corpus.vocabulary import UNKNOWN_NUMBER

# Each is opened once in each process.
_tokenizer, _rare_words = cache(open_tokenizer), cache(RareWords)


def encode(settings: Settings, model: Path, rare: Path | None, folders: int, what: tuple[Part, int]) -> None:
    """Encode a part. `what` is the part and the number of training documents before it, which go to the shards in turn.

    The step `encode` leaves for each split its `tokens`, shard after shard, the `sizes` of its sequences, and for each
    shard how many sequences and tokens it gets (`shards`). A document is its lines and an empty line, which end in
    `</s>`. `model` is the file of the tokenizer, beside its dictionary, `rare` that of the rare words (None keeps all
    lines), and `folders` the number of shards.
    """
    part, before = what
    counts: Counter = Counter()
    for split in text.SPLITS:
        shards = [(array("i"), array("i")) for _ in range(folders if split == "train" else 1)]  # tokens and sizes
        for number, document in enumerate(text.read(part.path("clean", f"{split}.txt")), start=before):
            lines = list(_lines(document, settings, model, rare, split, counts))
            if lines:
                tokens, sizes = shards[number % len(shards)]
                for line in (*lines, []):
                    tokens.extend((*line, EOS))
                    sizes.append(len(line) + 1)
                counts[f"{split} documents"] += 1
                counts[f"{split} lines"] += len(lines)
        _write(part, split, shards)
    part.finish("encode", counts)


def _lines(
    lines: list[str], settings: Settings, model: Path, rare: Path | None, split: str, counts: Counter
) -> Iterator[list[int]]:
    """Return the lines of a document as tokens, none of more than `max_tokens`."""
    read = len(lines)
    if rare is not None:
        lines = _rare_words(rare).without(lines)
        counts["drop-rare-words: removed"] += read - len(lines)
    if "join-short-sentences" in settings.stages:
        before, lines = len(lines), join(lines)
        counts["join-short-sentences: removed"] += before - len(lines)
    counts[f"{split} words"] += sum(len(line.split()) for line in lines)
    counts[f"{split} characters"] += sum(map(len, lines))
    for numbers in _tokenizer(model, by_words=settings.model_type == "bpe").lines(lines):
        counts[f"{split} tokens"] += len(numbers)
        counts[f"{split} unknown tokens"] += numbers.count(UNKNOWN_NUMBER)
        starts = range(0, len(numbers), settings.max_tokens)
        yield from (numbers[start : start + settings.max_tokens] for start in starts)
        counts["no-pieces: removed"] += not starts
        counts["cut-long-lines: added"] += max(0, len(starts) - 1)


def _write(part: Part, split: str, shards: list[tuple[array, array]]) -> None:
    tokens, sizes = zip(*shards)
    numbers = np.array([(len(sizes), len(tokens)) for tokens, sizes in shards], dtype=np.int64)
    for kind, arrays in (("tokens", tokens), ("sizes", sizes), ("shards", [numbers])):
        part.write("encode", f"{split}.{kind}", b"".join(values.tobytes() for values in arrays))
