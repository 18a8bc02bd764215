"""Questions and contexts become pieces that the task `tupe_question_answering` reads, with a corpus' vocabulary.

A folder has, for each split, `SPLIT.json`, the questions as they were published, and below `SPLIT.` fairseq's binary
data: `context`, the pieces of every paragraph; `begin` and `end`, their characters; `question`; and `examples.npy`,
int64 `(N, 4)`: the number of the question and of its paragraph in the file, the first and last piece of its answer
(-1 where there is none). Windows are made of them when they are read, so that length and stride can be chosen then.
"""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any, Callable, NamedTuple, Optional

import numpy as np
import torch
from fairseq.data.indexed_dataset import MMapIndexedDatasetBuilder
from tqdm import tqdm

from tupe.data.binarise import check_folder
from tupe.data.corpus.manifest import NAME, Manifest
from tupe.data.corpus.reader import open_packed
from tupe.data.parallel import Map
from tupe.data.qa.pieces import Encoder, Pieces
from tupe.data.qa.reader import Paragraph, Question, read
from tupe.data.qa.rules import Tokens, scores, tokens
from tupe.errors import UserError
from tupe.files import sha256, whole_folder, write_json

_BATCH = 16  # paragraphs that a process gets at a time
_LONG = 30  # pieces: what prediction takes at most, if nothing else is said
SPLIT = re.compile(r"train|valid\d*|test(?:\d*|-(?P<language>[a-z]{2,3}))")


class Encoded(NamedTuple):
    """A paragraph in pieces: its context, its questions, for each the first and last piece of its answer, and counts."""

    context: Pieces
    questions: list[np.ndarray]
    targets: list[tuple[int, int]]
    counts: Counter
    first: str


def prepare(files: dict[str, Path], corpus: Manifest, out: Path, rules: str, language: str, map_: Map) -> dict:
    """Writes the folder `out`, unless it is there already.

    Args:
        files: by split: `train`, `valid`, `valid1`, ..., `test`, or `test-de` of a language; SQuAD's JSON.
        corpus: whose text processing and vocabulary are used.
        out: the folder.
        rules: by which answers are scored: `squad` or `mlqa`.
        language: of the contexts of splits that do not say theirs.
        map_: from `tupe.data.parallel.pool`.

    Returns:
        What the manifest holds: what it was made of, and for each split what became of its questions.

    Raises:
        UserError: if a file is missing, or not what it should be, or if `out` holds something else.
    """
    check_folder(out)
    for split in files:
        if not SPLIT.fullmatch(split):
            raise UserError(
                f"'{split}' is no split: they are train, valid, valid1, test, and test-de, test-fr and so on."
            )
    languages = {split: SPLIT.fullmatch(split)["language"] or language for split in files}
    for name in languages.values():
        tokens(rules, name)
    for path in files.values():
        if not path.is_file():
            raise UserError(f"there is no {path}: give SPLIT=FILE, questions in SQuAD's JSON.")
    made_of = {
        "files": {split: {"name": path.name, "sha256": sha256(path)} for split, path in files.items()},
        "corpus": {name: corpus.content["checksums"][name] for name in (corpus.model.name, corpus.dictionary.name)},
        "text": {name: corpus.content["settings"][name] for name in ("stages", "language")},
    }
    content = {"rules": rules, "languages": languages, "made_of": made_of}
    done = out / NAME
    if done.is_file():
        before = json.loads(done.read_text(encoding="utf-8"))
        if {name: before.get(name) for name in content} == content:
            return before
    elif out.exists() and any(out.iterdir()):
        raise UserError(f"{out} is there, but not made by this command: choose another folder for OUT.")
    Encoder(corpus)  # before work begins
    with whole_folder(out) as folder:
        shutil.copy(corpus.dictionary, folder)
        content["splits"] = {
            split: _split(split, path, partial(_encode, corpus.folder, rules, languages[split]), folder, map_)
            for split, path in files.items()
        }
        write_json(folder / NAME, content)
    return content


def _split(split: str, path: Path, encode: Callable, folder: Path, map_: Map) -> dict[str, Any]:
    paragraphs = read(path)
    with open_packed(path) as packed, (folder / f"{split}.json").open("wb") as plain:
        shutil.copyfileobj(packed, plain)
    training, counts, first = split == "train", Counter(), ""
    examples: list[tuple[int, int, int, int]] = []
    total = sum(len(paragraph.questions) for paragraph in paragraphs)
    batches = (paragraphs[i : i + _BATCH] for i in range(0, len(paragraphs), _BATCH))
    with tqdm(desc=split, total=total, leave=False, disable=None, unit=" questions") as bar:
        writers = {name: _Writer(folder / f"{split}.{name}") for name in ("context", "begin", "end", "question")}
        number = 0
        for place, encoded in enumerate(_flat(map_(encode, batches))):
            for name, values in zip(("context", "begin", "end"), encoded.context):
                writers[name].add(values)
            for question, target in zip(encoded.questions, encoded.targets):
                if target[0] >= 0 or not training:
                    writers["question"].add(question)
                    examples.append((number, place, *target))
                number += 1
            counts += encoded.counts
            first = first or encoded.first
            bar.update(len(encoded.questions))
        for writer in writers.values():
            writer.close()
    _check(path, split, total, counts, first)
    np.save(folder / f"{split}.examples.npy", np.array(examples, dtype=np.int64))
    return _report(paragraphs, examples, counts, first)


class _Writer:
    """fairseq's binary data, an array at a time."""

    def __init__(self, prefix: Path) -> None:
        self._prefix = prefix
        self._builder = MMapIndexedDatasetBuilder(f"{prefix}.bin", dtype=np.int32)

    def add(self, values: np.ndarray) -> None:
        self._builder.add_item(torch.from_numpy(values))

    def close(self) -> None:
        self._builder.finalize(f"{self._prefix}.idx")


def _flat(batches: Iterable[list[Encoded]]) -> Iterator[Encoded]:
    for batch in batches:
        yield from batch


def _encode(corpus: Path, rules: str, language: str, batch: list[Paragraph]) -> list[Encoded]:
    encoder, of = _encoder(corpus), tokens(rules, language)
    return [_paragraph(encoder, of, paragraph) for paragraph in batch]


@cache
def _encoder(corpus: Path) -> Encoder:
    """Made once in each process."""
    return Encoder(Manifest.load(corpus))


def _paragraph(encoder: Encoder, of: Tokens, paragraph: Paragraph) -> Encoded:
    context = encoder(paragraph.context)
    if paragraph.questions and not len(context.numbers):
        raise UserError(f"the context of the question {paragraph.questions[0].id!r} has no text in it.")
    counts, first, questions, targets = Counter(), "", [], []
    counts["pieces"] = len(context.numbers)
    counts["unknown"] = int((context.numbers == encoder.unknown).sum())
    for question in paragraph.questions:
        questions.append(encoder.numbers(question.text))
        target, reason = _target(paragraph.context, context, question)
        if target is None:
            counts[f"reason: {reason}"] += 1
            first = first or f"{question.id!r}: {reason}{_found(paragraph.context, question)}"
        else:
            text = paragraph.context[context.begin[target[0]] : context.end[target[1]]].strip()
            exact, f1 = scores(text, (answer.text for answer in question.answers), of)
            counts.update(exact=int(exact), f1=f1, targets=1, long=int(target[1] - target[0] >= _LONG))
        targets.append(target or (-1, -1))
    return Encoded(context, questions, targets, counts, first)


def _target(context: str, pieces: Pieces, question: Question) -> tuple[Optional[tuple[int, int]], str]:
    """The first and last piece of the first answer, or why there are none."""
    if not question.answers:
        return None, "no answer"
    answer = question.answers[0]
    text = answer.text
    if answer.start < 0 or context[answer.start : answer.start + len(text)] != text:
        return None, "the answer does not stand at its start"
    begin = answer.start + len(text) - len(text.lstrip())
    span = pieces.span(begin, answer.start + len(text.rstrip()) - 1) if text.strip() else None
    return (span, "") if span else (None, "no piece holds the answer")


def _found(context: str, question: Question) -> str:
    if not question.answers:
        return ""
    answer = question.answers[0]
    there = context[max(answer.start, 0) : max(answer.start, 0) + len(answer.text)]
    return f" ({answer.text[:40]!a}; at {answer.start} is {there[:40]!a})"


def _check(path: Path, split: str, total: int, counts: Counter, first: str) -> None:
    if counts["targets"]:
        return
    if counts["reason: no answer"] == total:
        if not split.startswith("test"):
            raise UserError(
                f"none of the {total} questions of {path} has an answer, so that it cannot be used for {split}: XTREME "
                "keeps back those of its test sets, which can only be predicted."
            )
    else:
        raise UserError(f"none of the {total} answers of {path} can be found in its context; the first is {first}.")


def _report(paragraphs: list[Paragraph], examples: list, counts: Counter, first: str) -> dict[str, Any]:
    found = max(counts["targets"], 1)
    return {
        "read": sum(len(paragraph.questions) for paragraph in paragraphs),
        "kept": len(examples),
        "contexts": len(paragraphs),
        "pieces": counts["pieces"],
        "unknown": 100 * counts["unknown"] / max(counts["pieces"], 1),
        "reasons": {name[len("reason: ") :]: n for name, n in counts.items() if name.startswith("reason: ")},
        "first": first,
        "targets": counts["targets"],
        "long": counts["long"],
        "exact_match": 100 * counts["exact"] / found,
        "f1": 100 * counts["f1"] / found,
    }
