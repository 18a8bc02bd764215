"""Parallel text becomes one joint SentencePiece model and fairseq's binary data, in three passes over the files.

    read        every split is read once: unequal files, bytes that are no UTF-8 and empty lines are found here
    vocabulary  SentencePiece is trained on both sides of the training data
    encode      text becomes fairseq's binary data, with the one dictionary on both sides; of the training data, what
                `Cleaning` refuses is left out and counted

Validation and test data are taken as they are, since scores are compared by their line numbers; their text is kept
beside the binary data, `text/test.de`, as the reference of `tupe bleu`.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from functools import cache, partial
from pathlib import Path
from typing import Any, Optional

import numpy as np
from tqdm import tqdm

from tupe.data.binary import EOS, check_folder, writer
from tupe.data.corpus.manifest import DICTIONARY, MODEL, NAME, versions
from tupe.data.corpus.vocabulary import Encoder, train, write_dictionary
from tupe.data.parallel import Map
from tupe.data.translation.cleaning import Cleaning
from tupe.data.translation.parallel_text import ParallelText
from tupe.errors import UserError
from tupe.files import sha256, whole_folder, write_json

_BATCH = 1000  # pairs that a process gets at a time
#: Text that SentencePiece is trained on, in bytes: some 1 GB of memory.
SAMPLE_BYTES = {"bpe": 100 << 20, "unigram": 48 << 20}


@dataclasses.dataclass(frozen=True)
class Settings:
    """All that the result depends on, beside the files.

    Attributes:
        languages: of source and target, as the files end.
        vocab_size: symbols of the joint dictionary, fairseq's own included.
        model_type: of SentencePiece: `bpe` or `unigram`.
        lower_case: fold case in the SentencePiece model; scores are then of lower-cased text.
        cleaning: of the training data.
    """

    languages: tuple[str, str]
    vocab_size: int
    model_type: str
    lower_case: bool
    cleaning: Cleaning

    def __post_init__(self) -> None:
        if self.languages[0] == self.languages[1]:
            raise UserError(f"source and target language are both {self.languages[0]}: give two.")


def prepare(out: Path, splits: dict[str, list[ParallelText]], settings: Settings, map_: Map) -> dict:
    """Writes the folder of a translation task, unless it is there already.

    Args:
        out: folder that is made.
        splits: `train`, `valid` and `test`; a second test file becomes `test1`.
        settings: what is made of them.
        map_: from `tupe.data.parallel.pool`.

    Returns:
        What the manifest holds: of what it was made, counts and checksums.

    Raises:
        UserError: if files do not fit together or cannot be read, if no pair is left, or if `out` holds something else.
    """
    check_folder(out)
    named = {f"{split}{number or ''}": text for split, texts in splits.items() for number, text in enumerate(texts)}
    made_of = {
        "settings": json.loads(json.dumps(dataclasses.asdict(settings))),
        "files": {
            name: [{"path": str(file), "sha256": sha256(file)} for file in (text.source, text.target)]
            for name, text in named.items()
        },
    }
    manifest = out / NAME
    if manifest.is_file():
        content = json.loads(manifest.read_text(encoding="utf-8"))
        if content.get("made_of") == made_of:
            return content
        raise UserError(f"{out} holds data of other files or settings: choose another folder for OUT, or remove it.")
    if out.exists() and any(out.iterdir()):
        raise UserError(f"{out} is there, but not made by this command: choose another folder for OUT.")
    with whole_folder(out) as folder:
        content = {"made_of": made_of, **_make(folder, named, settings, map_)}
        write_json(folder / NAME, content)
    return content


def _make(folder: Path, named: dict[str, ParallelText], settings: Settings, map_: Map) -> dict[str, Any]:
    model, dictionary = folder / MODEL, folder / DICTIONARY
    sizes = {name: _read(name, text) for name, text in named.items()}
    step = max(1, -(-sizes["train"]["bytes"] // SAMPLE_BYTES[settings.model_type]))  # every how many lines
    both_sides = itertools.chain.from_iterable(named["train"].pairs())
    train(
        itertools.islice((line for line in both_sides if line), 0, None, step),
        model, settings.vocab_size, settings.model_type, settings.lower_case, (),
    )  # fmt: skip
    write_dictionary(model, dictionary)
    for language in settings.languages:
        (folder / f"dict.{language}.txt").write_bytes(dictionary.read_bytes())
    counts = {}
    for name, text in named.items():
        cleaning = settings.cleaning if name == "train" else None
        read = _batches(tqdm(text.pairs(), name, sizes[name]["lines"], leave=False, disable=None, unit=" pairs"))
        encoded = map_(partial(_encode, model, cleaning), read)
        counts[name] = {**sizes[name], **_write(encoded, folder, name, settings)}
    if counts["train"]["kept"] == 0:
        raise UserError(f"of {sizes['train']['lines']:,} pairs none is left: raise --max-tokens or --max-ratio.")
    kept = {path.name: sha256(path) for path in (model, dictionary)}
    return {"splits": counts, "checksums": kept, "versions": versions()}


def _read(name: str, text: ParallelText) -> dict[str, int]:
    """Counts lines, bytes and empty lines of a split."""
    counts: Counter = Counter(lines=0, bytes=0)
    for source, target in tqdm(text.pairs(), f"reading {name}", leave=False, disable=None, unit=" pairs"):
        counts["lines"] += 1
        counts["bytes"] += len(source.encode()) + len(target.encode())
        counts["empty source lines"] += not source
        counts["empty target lines"] += not target
    if not counts["lines"]:
        raise UserError(f"{text.source} is empty: it needs at least one line.")
    return dict(counts)


def _batches(pairs: Iterable[tuple[str, str]]) -> Iterator[list[tuple[str, str]]]:
    pairs = iter(pairs)
    while batch := list(itertools.islice(pairs, _BATCH)):
        yield batch


def _encode(
    model: Path, cleaning: Optional[Cleaning], batch: list[tuple[str, str]]
) -> tuple[list[tuple[str, str]], list[tuple[list[int], list[int]]], Counter]:
    """A batch, the numbers of its pairs without those that are left out, and the reasons."""
    kept, counts = [], Counter(kept=0)
    for source, target in zip(*(_encoder(model).lines(list(side)) for side in zip(*batch))):
        reason = cleaning and cleaning.reason(len(source), len(target))
        counts[reason or "kept"] += 1
        if not reason:
            kept.append(([*source, EOS], [*target, EOS]))
            counts["source pieces"] += len(source)
            counts["target pieces"] += len(target)
    return batch, kept, counts


@cache
def _encoder(model: Path) -> Encoder:
    """Made once in each process."""
    return Encoder(model)


def _write(results: Iterable[tuple[list, list, Counter]], folder: Path, split: str, settings: Settings) -> Counter:
    """Writes `train.en-de.en`, `.de`, and of other splits the text itself; returns the sum of the counts."""
    total: Counter = Counter()
    (folder / "text").mkdir(exist_ok=True)
    with ExitStack() as stack:
        sides = []
        for language in settings.languages:
            prefix = folder / f"{split}.{'-'.join(settings.languages)}.{language}"
            add, text = stack.enter_context(writer(prefix, settings.vocab_size)), None
            if split != "train":
                path = folder / "text" / f"{split}.{language}"
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
