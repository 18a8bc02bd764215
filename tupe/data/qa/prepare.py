"""Encode questions and contexts with a corpus' vocabulary, for the task `tupe_question_answering`.

The folder has `dict.txt` and a folder for each split, which holds

    questions.json      the file as it was published
    context, question   fairseq's binary data: the pieces of every paragraph and question
    begin, end          fairseq's binary data: the characters of the pieces of `context`
    examples.npy        int64 `(N, 4)`: the number of the question and of its paragraph in the file, the first and last
                        piece of its answer (-1 without an answer)
    report.json         `Report`

Windows are made when a split is read, so their length and stride can be chosen then.
"""

import shutil
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict
from functools import partial
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import numpy as np
from tqdm import tqdm

from tupe.data.binary import writer
from tupe.data.corpus.manifest import Manifest
from tupe.data.corpus.reader import open_packed
from tupe.data.corpus.tokenizers import Pieces
from tupe.data.corpus.vocabulary import UNKNOWN_NUMBER, read_symbols
from tupe.data.parallel import Map, batches
from tupe.data.qa.pieces import Encoder, encoder_of
from tupe.data.qa.reader import Paragraph, Question, read
from tupe.data.qa.report import EXAMPLES, LONG, QUESTIONS, REPORT, Report
from tupe.data.qa.rules import Tokens, scores, tokens
from tupe.util import UserError, atomic, run_folder, sha256, write_json

_CHARACTERS = 1 << 30  # more numbers than a context has characters
_BATCH = 16  # paragraphs that a process gets at a time
_REASON = "-"  # prefix of the counts of questions without a target


class Encoded(NamedTuple):
    """A paragraph and its questions in pieces, first and last piece of the answers, counts, and the first failure."""

    context: Pieces
    questions: list[np.ndarray]
    targets: list[tuple[int, int]]
    counts: Counter
    first: str


def prepare(
    files: dict[str, Path], corpus: Manifest, out: Path, rules: str, language: str, map_: Map
) -> dict[str, Report]:
    """Add the splits to the folder `out`, but those that are there already.

    The splits are `train`, `valid`, `valid1`, ..., `test`, or `test-de` of a language; their files are SQuAD's JSON.
    `rules`, `squad` or `mlqa`, score the answers. `language` is that of contexts whose split does not say its own.

    Returns:
        What became of the questions of each split.

    Raises:
        UserError: `out` was made with another corpus or rules, or a split of it from another file.
    """
    with run_folder(out, {**corpus.described(), "rules": rules}):
        reports = {}
        for split, path in files.items():
            own = split.removeprefix("test-") if split.startswith("test-") else language
            reports[split] = _prepared(split, path, corpus, rules, own, out / split, map_)
        shutil.copyfile(corpus.dictionary, out / corpus.dictionary.name)
        return reports


def _prepared(split: str, path: Path, corpus: Manifest, rules: str, language: str, out: Path, map_: Map) -> Report:
    about = {"file": path.name, "sha256": sha256(path), "rules": rules, "language": language}
    if out.exists():
        report = Report.load(out)
        if (report.sha256, report.language) != (about["sha256"], language):
            raise UserError(f"{out} was made from {report.file} in {report.language}. Delete it to make it again.")
        return report
    paragraphs = read(path)
    with atomic(out) as folder:
        folder.mkdir()
        with open_packed(path) as packed, (folder / QUESTIONS).open("wb") as plain:
            shutil.copyfileobj(packed, plain)
        encode = partial(_encode, corpus.folder, rules, language)
        examples, counts, first = _write(split, paragraphs, len(read_symbols(corpus.dictionary)), encode, folder, map_)
        np.save(folder / EXAMPLES, np.array(examples, dtype=np.int64))
        found = max(counts["targets"], 1)
        report = Report(
            **about,
            **{name: counts[name] for name in ("read", "contexts", "pieces", "unknown", "targets", "long")},
            kept=len(examples),
            reasons={name[1:]: number for name, number in counts.items() if name.startswith(_REASON)},
            first=first,
            exact_match=100 * counts["exact"] / found,
            f1=100 * counts["f1"] / found,
        )
        write_json(folder / REPORT, asdict(report))
    return report


def _write(
    split: str, paragraphs: list[Paragraph], symbols: int, encode: Callable, folder: Path, map_: Map
) -> tuple[list[tuple[int, int, int, int]], Counter, str]:
    """Write the binary data; return the rows of `examples.npy`, the counts, and the first question without target."""
    examples: list[tuple[int, int, int, int]] = []
    counts, first, number = Counter(contexts=len(paragraphs)), "", 0
    total = sum(len(paragraph.questions) for paragraph in paragraphs)
    with ExitStack() as stack:
        add = {name: stack.enter_context(writer(folder / name, symbols)) for name in ("context", "question")}
        add.update((name, stack.enter_context(writer(folder / name, _CHARACTERS))) for name in ("begin", "end"))
        bar = stack.enter_context(tqdm(desc=split, total=total, leave=False, disable=None, unit=" questions"))
        for place, encoded in enumerate(chain.from_iterable(map_(encode, batches(paragraphs, _BATCH)))):
            for name, values in zip(("context", "begin", "end"), encoded.context):
                add[name](values, np.array([len(values)]))
            for question, target in zip(encoded.questions, encoded.targets):
                if target[0] >= 0 or split != "train":
                    add["question"](question, np.array([len(question)]))
                    examples.append((number, place, *target))
                number += 1
            counts += encoded.counts
            first = first or encoded.first
            bar.update(len(encoded.questions))
    return examples, counts, first


def _encode(corpus: Path, rules: str, language: str, batch: list[Paragraph]) -> list[Encoded]:
    encoder, split = encoder_of(corpus), tokens(rules, language)
    return [_paragraph(encoder, split, paragraph) for paragraph in batch]


def _paragraph(encoder: Encoder, split: Tokens, paragraph: Paragraph) -> Encoded:
    context = encoder(paragraph.context)
    first, questions, targets = "", [], []
    unknown = int((context.numbers == UNKNOWN_NUMBER).sum())
    counts = Counter(read=len(paragraph.questions), pieces=len(context.numbers), unknown=unknown)
    for question in paragraph.questions:
        questions.append(encoder.numbers(question.text))
        target, reason = _target(paragraph.context, context, question)
        if target is not None and not len(questions[-1]):
            target, reason = None, "the question is empty"
        if target is None:
            counts[_REASON + reason] += 1
            first = first or f"{question.id[:40]!a}: {reason}{_found(paragraph.context, question)}"
        else:
            text = paragraph.context[context.begin[target[0]] : context.end[target[1]]].strip()
            exact, f1 = scores(text, (answer.text for answer in question.answers), split)
            counts.update(exact=int(exact), f1=f1, targets=1, long=int(target[1] - target[0] >= LONG))
        targets.append(target or (-1, -1))
    return Encoded(context, questions, targets, counts, first)


def _target(context: str, pieces: Pieces, question: Question) -> tuple[tuple[int, int] | None, str]:
    """Return the first and last piece of the first answer, or why there are none."""
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
