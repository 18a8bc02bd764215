"""Prepare parallel text for fairseq's `translation` task, with one joint SentencePiece model.

SentencePiece is trained on both sides of the training data. Training pairs that are too long or too unequal in length
are dropped and counted. Validation and test data stay complete, because scores compare lines by number. Their text is
kept next to the binary data, such as `text/test.de`, as sacreBLEU's reference.
"""

import itertools
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, Literal

from tqdm import tqdm

from tupe.data import tokenizers
from tupe.data.binary import EOS, writer
from tupe.data.documents import open_compressed, unchanged
from tupe.data.manifest import NAME, checksums
from tupe.data.parallel import Map, batches, counted, pool
from tupe.data.text import unescape
from tupe.data.tokenizers import DICTIONARY, MODEL, SAMPLE_BYTES, kept_tokenizer, read_symbols
from tupe.util import read_json, run_folder, sha256, write_json

_BATCH = 1000  # pairs sent to a process at a time


def prepare_translation(
    source: str,
    target: str,
    out: Path,
    *,
    train: str,
    valid: str,
    test: Sequence[str] = (),
    vocab_size: int = 32_000,
    model_type: Literal["bpe", "unigram"] = "bpe",
    lower_case: bool = False,
    max_tokens: int = 250,
    max_ratio: float = 1.5,
    workers: int = 0,
) -> str:
    """Prepare parallel text: one joint SentencePiece model, fairseq's binary data and a manifest.

    Training pairs are cleaned by length and ratio; validation and test data stay as they are. Files may be compressed.
    The prefix `data/train` means `data/train.en` and `data/train.de`.

    tupe prepare-translation en de OUT --train data/train --valid data/val --test data/test_2016

    Args:
        source: Source language, which is the suffix of its files: en.
        target: Target language: de.
        out: Folder to write.
        train: Training data without the suffix: data/train.
        valid: Validation data.
        test: Test data, without suffixes; a second set is named test1.
        vocab_size: Number of symbols for both languages.
        model_type: Kind of SentencePiece model.
        lower_case: Fold case in the SentencePiece model.
        max_tokens: Maximum number of tokens on each side of a training pair.
        max_ratio: Maximum ratio of the lengths of a training pair.
        workers: Processes; all cores by default.

    Raises:
        UserError: `out` was started with other files or settings.
        ValueError: two files have different numbers of lines.
    """
    languages = (source, target)
    learned = {"vocab_size": vocab_size, "model_type": model_type, "lower_case": lower_case}
    limits = {"max_tokens": max_tokens, "max_ratio": max_ratio}
    settings = {"languages": languages, **learned, **limits}
    named = {"train": train, "valid": valid, **{f"test{number or ''}": prefix for number, prefix in enumerate(test)}}
    splits = {name: {side: _find(prefix, side) for side in languages} for name, prefix in named.items()}
    with unchanged(file for pair in splits.values() for file in pair.values()):
        files = {name: {file.name: sha256(file) for file in pair.values()} for name, pair in splits.items()}
        with run_folder(out, {**settings, "files": files}), pool(workers) as map_:
            if not (out / NAME).exists():
                _vocabulary(out, splits["train"], learned)
                counts = {name: _write_split(out, name, pair, limits, map_) for name, pair in splits.items()}
                content = {"settings": settings, "files": files, "splits": counts, "checksums": checksums(out)}
                write_json(out / NAME, content)
    lines = [f"{name:<6} {counted(counts)}" for name, counts in read_json(out / NAME)["splits"].items()]
    return "\n".join([*lines, f"data: {out}"])


def _find(prefix: str, language: str) -> Path:
    """Find `PREFIX.en`, or a compressed file; if both are missing, reading `PREFIX.en` will fail."""
    names = [Path(f"{prefix}.{language}{suffix}") for suffix in ("", ".gz", ".xz", ".bz2", ".zst")]
    return next(filter(Path.is_file, names), names[0])


def pairs(source: Path, target: Path) -> Iterator[tuple[str, str]]:
    """Yield the lines of two files in parallel; white space becomes single spaces, `&apos;` an apostrophe."""
    return zip(_lines(source), _lines(target), strict=True)


def _lines(path: Path) -> Iterator[str]:
    """Yield the lines of a file, which may be compressed."""
    with open_compressed(path) as file:
        for number, raw in enumerate(file):
            yield " ".join(unescape(raw.decode("utf-8" if number else "utf-8-sig")).split())


def _vocabulary(out: Path, files: dict[str, Path], learned: dict[str, Any]) -> None:
    """Train the SentencePiece model, and write one dictionary for both languages."""
    size = sum(len(line.encode()) for pair in pairs(*files.values()) for line in pair)

    step = max(1, -(-size // SAMPLE_BYTES[learned["model_type"]]))  # every `step`-th pair is sampled
    sample = itertools.islice(pairs(*files.values()), 0, None, step)  # pairs, to sample both languages
    tokenizers.train((line for pair in sample for line in pair if line), out / MODEL, **learned, own_symbols=())
    tokenizers.write_dictionary(out / DICTIONARY, tokenizers.symbols(out / MODEL))
    for language in files:
        shutil.copyfile(out / DICTIONARY, out / f"dict.{language}.txt")


def _write_split(out: Path, name: str, files: dict[str, Path], limits: dict, map_: Map) -> dict[str, int]:
    """Write `train.en-de.en` and `.de`, for other splits also the text itself; return counts of the pairs."""
    counts, symbols = Counter(), len(read_symbols(out / DICTIONARY))
    (out / "text").mkdir(exist_ok=True)
    bar = tqdm(pairs(*files.values()), name, disable=None, unit=" pairs")
    with ExitStack() as stack:
        add, texts = [], []
        for language in files:
            prefix = out / f"{name}.{'-'.join(files)}.{language}"
            add.append(stack.enter_context(writer(prefix, symbols)))
            if name != "train":
                path = out / "text" / f"{name}.{language}"
                texts.append(stack.enter_context(path.open("w", encoding="utf-8")))

        for batch, encoded in map_(partial(_encode, out / MODEL), batches(bar, _BATCH)):
            for text, lines in zip(texts, zip(*batch)):
                text.writelines(f"{line}\n" for line in lines)
            for pair in encoded:
                kept = name != "train" or _is_kept(*map(len, pair), **limits)
                counts.update(pairs=1, **({} if kept else {"dropped": 1}))
                for add_side, side in zip(add, pair if kept else ()):
                    add_side([*side, EOS])
    return dict(counts)


def _encode(model: Path, batch: list[tuple[str, str]]) -> tuple[list[tuple[str, str]], list[tuple[list[int], ...]]]:
    """Return a batch, and the numbers of its pairs."""
    return batch, [tuple(map(kept_tokenizer(model), pair)) for pair in batch]


def _is_kept(source: int, target: int, max_tokens: int, max_ratio: float) -> bool:
    """Return whether training keeps a pair of these lengths, as Moses' `clean-corpus-n` does."""
    shorter, longer = sorted((source, target))
    return shorter > 0 and longer <= max_tokens and longer <= max_ratio * shorter
