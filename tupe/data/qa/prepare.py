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

import re
import shutil
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import numpy as np
from tqdm import tqdm

from tupe.data.binary import check_folder, writer
from tupe.data.corpus.manifest import Manifest
from tupe.data.corpus.reader import open_packed
from tupe.data.corpus.tokenizers import Pieces
from tupe.data.corpus.vocabulary import UNKNOWN_NUMBER, read_symbols
from tupe.data.parallel import Map, batches
from tupe.data.qa.pieces import Encoder, encoder_of
from tupe.data.qa.reader import Paragraph, Question, read
from tupe.data.qa.report import EXAMPLES, LONG, MADE_BY, QUESTIONS, REPORT, Report
from tupe.data.qa.rules import Tokens, scores, tokens
from tupe.errors import UserError
from tupe.files import checksums, own, sha256, sizes, whole_folder, write, write_bytes

_CHARACTERS = 1 << 30  # more numbers than a context has characters
_BATCH = 16  # paragraphs that a process gets at a time
_REASON = "-"  # prefix of the counts of questions without a target
_SPLIT = re.compile(r"train|valid\d*|test(?:\d*|-(?P<language>[a-z]{2,3}))")


class Encoded(NamedTuple):
    """A paragraph and its questions in pieces, first and last piece of the answers, counts, and the first failure."""

    context: Pieces
    questions: list[np.ndarray]
    targets: list[tuple[int, int]]
    counts: Counter
    first: str


def prepare(
    files: dict[str, Path], corpus: Manifest, out: Path, rules: str, language: str, verify: bool, map_: Map
) -> dict[str, Report]:
    """Add the splits to the folder `out`; `verify` checks the checksums of those that are there already.

    The splits are `train`, `valid`, `valid1`, ..., `test`, or `test-de` of a language; their files are SQuAD's JSON.
    `rules`, `squad` or `mlqa`, score the answers. `language` is that of contexts whose split does not say its own.

    Returns:
        What became of the questions of each split.

    Raises:
        UserError: if a file is missing or not what it should be, or if `out` holds something else or is damaged.
    """
    check_folder(out)
    languages = {}
    for split, path in files.items():
        known = _SPLIT.fullmatch(split)
        if not known:
            raise UserError(
                f"'{split}' is no split: they are train, valid, valid1, ..., test, and test-de of a language."
            )
        languages[split] = known["language"] or language
        tokens(rules, languages[split])
        if not path.is_file():
            raise UserError(f"there is no file {path}: give SPLIT=FILE, questions in SQuAD's JSON.")
    Encoder(corpus)  # before work begins
    described = corpus.described()
    made_of = {"vocabulary": described["corpus"], "text": described["text"], "rules": rules}
    with own(out, MADE_BY, made_of):
        reports = {}
        for split, path in files.items():
            reports[split] = _prepared(split, path, corpus, rules, languages[split], out / split, verify, map_)
            write_bytes(out / corpus.dictionary.name, corpus.dictionary.read_bytes())  # not before there is a split
        return reports


def _prepared(
    split: str, path: Path, corpus: Manifest, rules: str, language: str, out: Path, verify: bool, map_: Map
) -> Report:
    about = {"file": path.name, "sha256": sha256(path), "rules": rules, "language": language}
    if out.exists():
        report = Report.load(out, verify)
        if (report.sha256, report.language) != (about["sha256"], language):
            raise UserError(
                f"{out} was made of another file or language ({report.file}, {report.language}): remove it."
            )
        return report
    paragraphs = read(path)
    with whole_folder(out) as folder:
        with open_packed(path) as packed, (folder / QUESTIONS).open("wb") as plain:
            shutil.copyfileobj(packed, plain)
        encode = partial(_encode, corpus.folder, rules, language)
        examples, counts, first = _write(split, paragraphs, len(read_symbols(corpus.dictionary)), encode, folder, map_)
        _check(path, split, counts, first)
        np.save(folder / EXAMPLES, np.array(examples, dtype=np.int64))
        found = max(counts["targets"], 1)
        names = sorted(file.name for file in folder.iterdir())
        report = Report(
            **about,
            **{name: counts[name] for name in ("read", "contexts", "pieces", "unknown", "targets", "long")},
            kept=len(examples),
            reasons={name[1:]: number for name, number in counts.items() if name.startswith(_REASON)},
            first=first,
            exact_match=100 * counts["exact"] / found,
            f1=100 * counts["f1"] / found,
            sizes=sizes(folder, names),
            checksums=checksums(folder, names),
        )
        write(folder / REPORT, report)
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
    if paragraph.questions and not len(context.numbers):
        raise UserError(f"the context of the question {paragraph.questions[0].id!r} has no text in it.")
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


def _check(path: Path, split: str, counts: Counter, first: str) -> None:
    total = counts["read"]
    if counts[f"{_REASON}no answer"] < total:
        if not counts["targets"]:
            raise UserError(
                f"none of the {total} questions of {path} has an answer that can be learnt; the first is {first}."
            )
    elif not split.startswith("test"):
        raise UserError(
            f"none of the {total} questions of {path} has an answer, so that it cannot be used for {split}: XTREME "
            "keeps back those of its test sets, which can only be predicted."
        )
