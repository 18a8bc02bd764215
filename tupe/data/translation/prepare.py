"""Make one joint SentencePiece model and fairseq's binary data of parallel text.

SentencePiece is trained on both sides of the training data. Training pairs that are too long or too unequal are left
out and counted. Validation and test data stay whole, since scores are compared by line numbers; their text is kept
beside the binary data, `text/test.de`, as the reference of sacreBLEU.
"""

import itertools
import shutil
from collections import Counter
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from functools import cache, partial
from pathlib import Path

import numpy as np
from tqdm import tqdm

from tupe.data.binary import EOS, writer
from tupe.data.corpus.manifest import DICTIONARY, MODEL, NAME, versions
from tupe.data.corpus.tokenizers import SentencePieceTokenizer
from tupe.data.corpus.vocabulary import SAMPLE_BYTES, train, write_dictionary
from tupe.data.parallel import Map, batches
from tupe.data.translation.parallel_text import ParallelText
from tupe.util import UserError, read_json, run_folder, sha256, write_json

_BATCH = 1000  # pairs that a process gets at a time

_tokenizer = cache(SentencePieceTokenizer)  # made once in each process


@dataclass(frozen=True)
class Settings:
    """Settings that the result depends on, beside the files."""

    languages: tuple[str, str]  # endings of the source and target files
    vocab_size: int  # symbols of the joint dictionary, fairseq's own included
    model_type: str  # SentencePiece's `bpe` or `unigram`
    lower_case: bool  # fold case in the SentencePiece model; scores are then of lower-cased text
    max_tokens: int  # the longest side of a training pair that is kept
    max_ratio: float  # how many times as long as the other a side of a training pair may be

    def reason(self, source: int, target: int) -> str | None:
        """Tell why a pair of these numbers of tokens is left out; `None` if it is kept. As Moses' `clean-corpus-n`."""
        shorter, longer = sorted((source, target))
        if shorter == 0:
            return "empty on one side" if longer else "empty on both sides"
        if longer > self.max_tokens:
            return f"longer than {self.max_tokens} tokens"
        if longer > self.max_ratio * shorter:
            return f"one side more than {self.max_ratio:g} times as long as the other"
        return None


def prepare(out: Path, splits: dict[str, list[ParallelText]], settings: Settings, map_: Map) -> dict:
    """Make the folder of a translation task, unless it is done.

    The splits are `train`, `valid` and `test`; a second test file becomes `test1`.

    Returns:
        What `manifest.json` has: `settings`, `files` with the checksums of what was read, and `splits` with counts.

    Raises:
        UserError: if two files have different numbers of lines, or if `out` was begun with other files or settings.
    """
    named = {f"{split}{number or ''}": text for split, texts in splits.items() for number, text in enumerate(texts)}
    files = {name: {file.name: sha256(file) for file in (text.source, text.target)} for name, text in named.items()}
    with run_folder(out, {**asdict(settings), "files": files}):
        if not (out / NAME).exists():
            _vocabulary(out, named["train"], settings)
            counts = {name: _split(out, name, text, settings, map_) for name, text in named.items()}
            record = {"settings": asdict(settings), "files": files, "splits": counts, "versions": versions()}
            write_json(out / NAME, record)
    return read_json(out / NAME)


def _vocabulary(out: Path, text: ParallelText, settings: Settings) -> None:
    """Train the SentencePiece model, and write one dictionary for both languages."""
    size = sum(len(source.encode()) + len(target.encode()) for source, target in text.pairs())
    step = max(1, -(-size // SAMPLE_BYTES[settings.model_type]))  # every how many lines
    both_sides = itertools.chain.from_iterable(text.pairs())
    sample = itertools.islice((line for line in both_sides if line), 0, None, step)
    train(sample, out / MODEL, settings.vocab_size, settings.model_type, settings.lower_case, ())
    write_dictionary(out / MODEL, out / DICTIONARY)
    for language in settings.languages:
        shutil.copyfile(out / DICTIONARY, out / f"dict.{language}.txt")


def _split(out: Path, name: str, text: ParallelText, settings: Settings, map_: Map) -> dict[str, int]:
    """Write the data of a split; return what became of its pairs."""
    pairs = batches(tqdm(text.pairs(), name, leave=False, disable=None, unit=" pairs"), _BATCH)
    counts = _write(
        map_(partial(_encode, out / MODEL, settings if name == "train" else None), pairs), out, name, settings
    )
    if counts["kept"] == 0:
        raise UserError(f"No pair of {name} is left ({dict(counts)}). Raise --max-tokens or --max-ratio.")
    return dict(counts)


def _encode(
    model: Path, settings: Settings | None, batch: list[tuple[str, str]]
) -> tuple[list[tuple[str, str]], list[tuple[list[int], list[int]]], Counter]:
    """Return a batch, the numbers of its pairs without those that `settings` leave out, and counts."""
    kept, counts = [], Counter(lines=len(batch), kept=0)
    for side, lines in zip(("source", "target"), zip(*batch)):
        counts[f"empty {side} lines"] = lines.count("")
    for source, target in zip(*(_tokenizer(model).lines(list(side)) for side in zip(*batch))):
        reason = settings and settings.reason(len(source), len(target))
        counts[reason or "kept"] += 1
        if not reason:
            kept.append(([*source, EOS], [*target, EOS]))
            counts["source pieces"] += len(source)
            counts["target pieces"] += len(target)
    return batch, kept, counts


def _write(results: Iterable[tuple[list, list, Counter]], out: Path, split: str, settings: Settings) -> Counter:
    """Write `train.en-de.en`, `.de`, and of other splits the text itself; return the sum of the counts."""
    total: Counter = Counter()
    (out / "text").mkdir(exist_ok=True)
    with ExitStack() as stack:
        sides = []
        for language in settings.languages:
            prefix = out / f"{split}.{'-'.join(settings.languages)}.{language}"
            add, text = stack.enter_context(writer(prefix, settings.vocab_size)), None
            if split != "train":
                text = stack.enter_context((out / "text" / f"{split}.{language}").open("w", encoding="utf-8"))
            sides.append((add, text))
        for batch, kept, counts in results:
            for side, (add, text) in enumerate(sides):
                if kept:
                    add(np.concatenate([pair[side] for pair in kept]), [len(pair[side]) for pair in kept])
                if text is not None:
                    text.writelines(f"{pair[side]}\n" for pair in batch)
            total += counts
    return total
