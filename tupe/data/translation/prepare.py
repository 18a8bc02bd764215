"""Make one joint SentencePiece model and fairseq's binary data of parallel text, in three passes over the files.

    read        every split is read once: unequal files, bytes that are no UTF-8 and empty lines are found here
    vocabulary  SentencePiece is trained on both sides of the training data
    encode      text becomes fairseq's binary data, with one dictionary for both sides; training pairs that `Cleaning`
                refuses are left out and counted

Validation and test data stay whole, since scores are compared by line numbers; their text is kept beside the binary
data, `text/test.de`, as the reference of sacreBLEU. After an interruption, the reading, the vocabulary and each split
that are done are not done again.
"""

import dataclasses
import itertools
import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from tupe.data.binary import EOS, check_folder, writer
from tupe.data.corpus.manifest import MODEL, NAME, versions
from tupe.data.corpus.tokenizers import SentencePieceTokenizer
from tupe.data.corpus.vocabulary import SAMPLE_BYTES, train, write_dictionary
from tupe.data.parallel import Map, batches
from tupe.data.translation.cleaning import Cleaning
from tupe.data.translation.manifest import MADE_BY, Content, Settings
from tupe.data.translation.parallel_text import ParallelText
from tupe.errors import UserError
from tupe.files import (
    atomic,
    checksums,
    move_into,
    own,
    read,
    read_json,
    remove_unfinished,
    sha256,
    sizes,
    write,
    write_json,
)

_BATCH = 1000  # pairs that a process gets at a time

_tokenizer = cache(SentencePieceTokenizer)  # made once in each process


def prepare(
    out: Path, splits: dict[str, list[ParallelText]], settings: Settings, map_: Map, verify: bool = False
) -> Content:
    """Make the folder of a translation task, or what is left to do of it.

    The splits are `train`, `valid` and `test`; a second test file becomes `test1`. With `verify` the checksums of what
    is done are checked, not only its sizes.

    Returns:
        The content of the manifest.

    Raises:
        UserError: if files do not fit together or cannot be read, if no pair is left, if `out` holds something else or
            is damaged, or if another process is working there.
    """
    check_folder(out)
    named = {f"{split}{number or ''}": text for split, texts in splits.items() for number, text in enumerate(texts)}
    files = {name: {file.name: sha256(file) for file in (text.source, text.target)} for name, text in named.items()}
    made_of = {"settings": dataclasses.asdict(settings), "files": files}
    with own(out, MADE_BY, made_of):
        if not (out / NAME).exists():
            try:
                _make(out / "work", named, files, settings, map_)
            except UserError:  # the work of these files and settings is of no use for others
                shutil.rmtree(out / "work", ignore_errors=True)
                raise
            move_into(out, out / "work/data", read(out / "work" / NAME, Content, MADE_BY).sizes, MADE_BY)
            os.replace(out / "work" / NAME, out / NAME)
        content = Content.load(out, everything=verify)
        shutil.rmtree(out / "work", ignore_errors=True)
    return content


def _make(
    work: Path, named: dict[str, ParallelText], files: dict[str, dict[str, str]], settings: Settings, map_: Map
) -> None:
    """Make `work/data` and its manifest, `work/manifest.json`, or what is left to do of them."""
    if (work / NAME).exists():
        return
    data = work / "data"
    for folder in (work, data, data / "text"):
        remove_unfinished(folder)
    sizes_read = _once(work / "read.json", lambda: {name: _read(name, text) for name, text in named.items()})
    _vocabulary(data, named["train"], sizes_read["train"], settings)
    counts = {
        name: _once(work / f"{name}.json", partial(_split, data, name, text, sizes_read[name], settings, map_))
        for name, text in named.items()
    }
    made = sorted(str(path.relative_to(data)) for path in data.rglob("*") if path.is_file())
    write(work / NAME, Content(settings, files, counts, versions(), sizes(data, made), checksums(data, made)))


def _once(note: Path, make: Callable[[], Any]) -> Any:
    """Return what `make` returns, or what it returned before."""
    if not note.exists():
        write_json(note, make())
    return read_json(note, MADE_BY)


def _vocabulary(data: Path, text: ParallelText, size: dict[str, int], settings: Settings) -> None:
    """Train the SentencePiece model, and write one dictionary for both languages."""
    model = data / MODEL
    if not model.exists():
        step = max(1, -(-size["bytes"] // SAMPLE_BYTES[settings.model_type]))  # every how many lines
        both_sides = itertools.chain.from_iterable(text.pairs())
        sample = itertools.islice((line for line in both_sides if line), 0, None, step)
        train(sample, model, settings.vocab_size, settings.model_type, settings.lower_case, ())
    for name in settings.dictionaries:
        write_dictionary(model, data / name)


def _split(
    data: Path, name: str, text: ParallelText, size: dict[str, int], settings: Settings, map_: Map
) -> dict[str, int]:
    """Write the data of a split; return what became of its pairs."""
    cleaning = settings.cleaning if name == "train" else None
    pairs = batches(tqdm(text.pairs(), name, size["lines"], leave=False, disable=None, unit=" pairs"), _BATCH)
    counts = _write(map_(partial(_encode, data / MODEL, cleaning), pairs), data, name, settings)
    if counts["kept"] == 0:
        why = ", ".join(f"{number:,} {reason}" for reason, number in counts.items() if number)
        raise UserError(
            f"of {size['lines']:,} pairs none is left ({why}): mend them, or raise --max-tokens or --max-ratio."
        )
    return {**size, **counts}


def _read(name: str, text: ParallelText) -> dict[str, int]:
    """Count lines, bytes and empty lines of a split."""
    counts: Counter = Counter(lines=0, bytes=0)
    for source, target in tqdm(text.pairs(), f"reading {name}", leave=False, disable=None, unit=" pairs"):
        counts["lines"] += 1
        counts["bytes"] += len(source.encode()) + len(target.encode())
        counts["empty source lines"] += not source
        counts["empty target lines"] += not target
    if not counts["lines"]:
        raise UserError(f"{text.source} is empty: it needs at least one line.")
    return dict(counts)


def _encode(
    model: Path, cleaning: Cleaning | None, batch: list[tuple[str, str]]
) -> tuple[list[tuple[str, str]], list[tuple[list[int], list[int]]], Counter]:
    """Return a batch, the numbers of its pairs without those that are left out, and the reasons."""
    kept, counts = [], Counter(kept=0)
    for source, target in zip(*(_tokenizer(model).lines(list(side)) for side in zip(*batch))):
        reason = cleaning and cleaning.reason(len(source), len(target))
        counts[reason or "kept"] += 1
        if not reason:
            kept.append(([*source, EOS], [*target, EOS]))
            counts["source pieces"] += len(source)
            counts["target pieces"] += len(target)
    return batch, kept, counts


def _write(results: Iterable[tuple[list, list, Counter]], folder: Path, split: str, settings: Settings) -> Counter:
    """Write `train.en-de.en`, `.de`, and of other splits the text itself; return the sum of the counts."""
    total: Counter = Counter()
    with ExitStack() as stack:
        sides = []
        for language in settings.languages:
            prefix = folder / f"{split}.{'-'.join(settings.languages)}.{language}"
            add, text = stack.enter_context(writer(prefix, settings.vocab_size)), None
            if split != "train":
                path = stack.enter_context(atomic(folder / "text" / f"{split}.{language}"))
                text = stack.enter_context(path.open("w", encoding="utf-8", newline="\n"))
            sides.append((add, text))
        for batch, kept, counts in results:
            for side, (add, text) in enumerate(sides):
                if kept:
                    add(np.concatenate([pair[side] for pair in kept]), [len(pair[side]) for pair in kept])
                if text is not None:
                    text.writelines(f"{pair[side]}\n" for pair in batch)
            total += counts
    return total
