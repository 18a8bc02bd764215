"""Questions about paragraphs: SQuAD's JSON, and its data for the task `tupe_question_answering`.

A prepared folder has `dict.txt` and a folder for each split, which holds

    questions.json      the file as it was published
    context, question   fairseq's binary data: the pieces of every paragraph and question
    begin, end          fairseq's binary data: the characters of the pieces of `context`
    examples.npy        int64 `(N, 4)`: the number of the question and of its paragraph in the file, the first and last
                        piece of its answer (-1 without an answer)
    report.json         `Report`

Windows are made when a split is read, so their length and stride can be chosen then.
"""

import json
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from functools import cache, partial
from itertools import chain
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from tqdm import tqdm

from tupe.data.binary import writer
from tupe.data.documents import open_packed
from tupe.data.manifest import Manifest
from tupe.data.parallel import Map, batches
from tupe.data.scores import Tokens, scores, tokens
from tupe.data.text import KEEP_WHITE_SPACE, REPAIR, STAGES, mark, repaired
from tupe.data.tokenizers import UNKNOWN_NUMBER, Pieces, read_symbols
from tupe.util import UserError, atomic, read_json, run_folder, sha256, write_json

REPORT, EXAMPLES, QUESTIONS = "report.json", "examples.npy", "questions.json"
LONG = 30  # pieces of an answer that prediction takes at most, if nothing else is said
_CHARACTERS = 1 << 30  # more numbers than a context has characters
_BATCH = 16  # paragraphs that a process gets at a time


@dataclass(frozen=True)
class Answer:
    """An answer, and where its first character stands in the context."""

    text: str
    start: int


@dataclass(frozen=True)
class Question:
    """A question and its answers: none where the publisher keeps them."""

    id: str
    text: str
    answers: tuple[Answer, ...]


@dataclass(frozen=True)
class Paragraph:
    """A context and the questions about it."""

    context: str
    questions: tuple[Question, ...]


def read(path: Path) -> list[Paragraph]:
    """Return the paragraphs of a file of SQuAD v1.1, MLQA, XQuAD or TyDiQA-GoldP, which xz, gzip or bzip2 may pack.

    Texts are as they stand there. Answers without text, as in XTREME's test sets, are left out.
    """
    articles = read_packed_json(path)["data"]
    return [
        Paragraph(item["context"], tuple(map(_question, item["qas"]))) for one in articles for item in one["paragraphs"]
    ]


def read_packed_json(path: Path) -> Any:
    """Read a JSON file, which may be packed, such as predictions as SQuAD's and XTREME's scripts read them."""
    with open_packed(path) as file:
        return json.loads(file.read())


def _question(item: dict[str, Any]) -> Question:
    """Make a question of its JSON, without the answers that have no text."""
    answers = (Answer(answer["text"], int(answer["answer_start"])) for answer in item.get("answers", ()))
    return Question(str(item["id"]), item["question"], tuple(answer for answer in answers if answer.text))


def score(paragraphs: list[Paragraph], predictions: Mapping[str, str], of: Tokens) -> dict[str, float] | None:
    """Compute `exact_match` and `f1` like the official scripts: means over all questions, in percent.

    A question without a prediction counts 0. Returns `None` if no question has an answer.
    """
    questions = [question for paragraph in paragraphs for question in paragraph.questions]
    if not any(question.answers for question in questions):
        return None
    found = [
        scores(predictions[question.id], (answer.text for answer in question.answers), of)
        for question in questions
        if question.id in predictions
    ]
    return {
        "exact_match": 100 * sum(exact for exact, _ in found) / len(questions),
        "f1": 100 * sum(f1 for _, f1 in found) / len(questions),
    }


def score_files(reference: Path, predictions: Path, of: Tokens) -> tuple[dict[str, float], list[str]]:
    """Return the scores of `{id: text}` in a file of JSON, and warnings about ids in only one of the two files.

    Raises:
        UserError: no question has an answer.
    """
    paragraphs, predicted = read(reference), read_packed_json(predictions)
    ids = {question.id for paragraph in paragraphs for question in paragraph.questions}
    result = score(paragraphs, predicted, of)
    if result is None:
        raise UserError(f"No question of {reference} has an answer. Its publisher may keep the answers back.")
    warnings = []
    if missing := ids - predicted.keys():
        warnings.append(f"{len(missing)} question(s) have no prediction and count 0, such as {min(missing)}")
    if others := predicted.keys() - ids:
        warnings.append(f"{len(others)} prediction(s) have no question, such as {min(others)}")
    return result, warnings


@dataclass(frozen=True)
class Report:
    """A prepared split."""

    file: str  # the name of the file that it was made of
    sha256: str  # checksum of the file
    rules: Literal["squad", "mlqa"]  # rules that score its answers
    language: str  # language of its contexts
    read: int  # questions in the file
    kept: int  # questions that are examples: all, but in training data only those with a target
    contexts: int  # paragraphs
    pieces: int  # pieces of all contexts
    unknown: int  # pieces that the vocabulary does not know
    reasons: dict[str, int]  # how many questions have no target, by the reason
    first: str  # the first of these questions, and its reason
    targets: int  # questions with a target
    long: int  # answers of more than `LONG` pieces
    exact_match: float  # percent of the targets: score of the text that is found again by the answer's pieces
    f1: float  # percent, likewise

    @classmethod
    def load(cls, folder: Path) -> "Report":
        """Read the report of a split."""
        return cls(**read_json(folder / REPORT))

    def lines(self, split: str) -> Iterator[str]:
        """Yield what was read, kept and not found, and how far the found answers lead back to their texts."""
        share = 100 * self.unknown / max(self.pieces, 1)
        contexts = f"{self.contexts:,} contexts of {self.pieces:,} pieces, {share:.2f}% unknown"
        yield f"{split:<8} {self.read:,} questions read, {self.kept:,} kept; {contexts}"
        for reason, number in self.reasons.items():
            yield f"{'':<8} {number:,} {'dropped' if self.kept < self.read else 'without a target'}: {reason}"
        if self.first:
            yield f"{'':<8} first: {self.first}"
        if self.targets:
            recovered = f"exact match {self.exact_match:.2f}, F1 {self.f1:.2f}"
            yield f"{'':<8} answers recovered from pieces: {recovered}; {self.long:,} longer than {LONG} pieces"


class Encoder:
    """Encoder of texts to pieces, like those of a corpus' own texts, each with the characters that it stands for.

    Tokenizers normalise what they read, SentencePiece by NFKC, so lengths change. Their own offsets lead back to the
    characters of their input; a piece that begins a word has the space before it among its characters.

    Raises:
        UserError: the corpus' text processing changes words.
    """

    def __init__(self, corpus: Manifest) -> None:
        stages = corpus.content.settings.stages
        if any(STAGES[name].line and name != REPAIR for name in stages):
            raise UserError(
                f"The text processing of {corpus.folder} changes words, so answers cannot be found in the text. "
                "Prepare the corpus with --profile sentencepiece."
            )
        self._tokenizer = corpus.tokenizer()
        self._repair, self._keep = REPAIR in stages, KEEP_WHITE_SPACE in stages

    def __call__(self, text: str) -> Pieces:
        """Return the pieces of a text, and the characters of the text that each stands for."""
        clean, position = self._clean(text)
        numbers, begin, end = self._tokenizer.pieces(clean)
        if position is not None and len(numbers):
            blank = begin == end
            begin, end = np.where(blank, position[end - 1] + 1, position[begin * ~blank]), position[end - 1] + 1
        return Pieces(numbers, begin, end)

    def numbers(self, text: str) -> np.ndarray:
        """Return the numbers of a text's pieces without their characters, which is much faster."""
        return np.array(self._tokenizer(self._clean(text)[0]), dtype=np.int64)

    def _clean(self, text: str) -> tuple[str, np.ndarray | None]:
        """Return the text without broken characters, and where each character stood; None for unchanged places."""
        if text.isprintable() and "\ufffd" not in text:
            return text, None
        if self._repair:
            kept = [(i, c) for i, c in enumerate(" " if c.isspace() else repaired(c) for c in text) if c]
            return "".join(c for _, c in kept), np.array([i for i, _ in kept], dtype=np.int64)
        spaces = "\r\n" if self._keep else "".join(filter(str.isspace, text))
        return "".join(" " if c in spaces else c if c.isspace() else mark(c) for c in text), None


@cache
def encoder_of(corpus: Path) -> Encoder:
    """Return the encoder of a corpus, made once in each process."""
    return Encoder(Manifest.load(corpus))


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
    encoder_of(corpus.folder)  # raises here, before anything is written
    with run_folder(out, {**corpus.described(), "rules": rules}):
        reports = {}
        for split, path in files.items():
            own = split.removeprefix("test-") if split.startswith("test-") else language
            about = {"file": path.name, "sha256": sha256(path), "rules": rules, "language": own}
            if not (out / split).exists():
                _prepare_split(split, path, corpus, about, out / split, map_)
            reports[split] = report = Report.load(out / split)
            if (report.sha256, report.language) != (about["sha256"], own):
                raise UserError(f"{out / split} was made from {report.file} in {report.language}. Delete it first.")
        shutil.copyfile(corpus.dictionary, out / corpus.dictionary.name)
        return reports


def _prepare_split(split: str, path: Path, corpus: Manifest, about: dict[str, str], out: Path, map_: Map) -> None:
    """Write the folder of a split."""
    with atomic(out) as folder:
        folder.mkdir()
        with open_packed(path) as packed, (folder / QUESTIONS).open("wb") as plain:
            shutil.copyfileobj(packed, plain)

        encode = partial(_encode, corpus.folder, about["rules"], about["language"])
        symbols = len(read_symbols(corpus.dictionary))
        examples, counts, reasons, first = _write(split, read(path), symbols, encode, folder, map_)
        np.save(folder / EXAMPLES, np.array(examples, dtype=np.int64))

        found = max(counts["targets"], 1)
        report = Report(
            **about,
            **{name: counts[name] for name in ("read", "contexts", "pieces", "unknown", "targets", "long")},
            kept=len(examples),
            reasons=dict(reasons),
            first=first,
            exact_match=100 * counts["exact"] / found,
            f1=100 * counts["f1"] / found,
        )
        write_json(folder / REPORT, asdict(report))


class Encoded(NamedTuple):
    """A paragraph in pieces, and its questions: pieces, first and last piece of the answer, and why there is none."""

    context: Pieces
    questions: list[tuple[np.ndarray, tuple[int, int], str]]
    counts: Counter


def _write(
    split: str, paragraphs: list[Paragraph], symbols: int, encode: Callable, folder: Path, map_: Map
) -> tuple[list[tuple[int, int, int, int]], Counter, Counter, str]:
    """Write the binary data; return the rows of `examples.npy`, counts, and the questions without target."""
    examples: list[tuple[int, int, int, int]] = []
    counts, reasons, first = Counter(contexts=len(paragraphs)), Counter(), ""
    questions = enumerate(question for paragraph in paragraphs for question in paragraph.questions)
    sizes = {"context": symbols, "question": symbols, "begin": _CHARACTERS, "end": _CHARACTERS}
    with ExitStack() as stack:
        add = {name: stack.enter_context(writer(folder / name, size)) for name, size in sizes.items()}

        encoded = chain.from_iterable(map_(encode, batches(paragraphs, _BATCH)))
        bar = tqdm(encoded, split, len(paragraphs), leave=False, disable=None, unit=" paragraphs")

        for place, paragraph in enumerate(bar):
            for name, values in zip(("context", "begin", "end"), paragraph.context):
                add[name](values)
            for pieces, target, reason in paragraph.questions:
                number, question = next(questions)
                if reason:
                    reasons[reason] += 1
                    first = first or f"{question.id[:40]!a}: {reason}"
                if not reason or split != "train":
                    add["question"](pieces)
                    examples.append((number, place, *target))
            counts += paragraph.counts
    return examples, counts, reasons, first


def _encode(corpus: Path, rules: str, language: str, batch: list[Paragraph]) -> list[Encoded]:
    """Encode some paragraphs in a process of the pool."""
    encoder, split = encoder_of(corpus), tokens(rules, language)
    return [_paragraph(encoder, split, paragraph) for paragraph in batch]


def _paragraph(encoder: Encoder, split: Tokens, paragraph: Paragraph) -> Encoded:
    """Encode a paragraph, and find the pieces of each answer."""
    context = encoder(paragraph.context)
    questions = []
    unknown = int((context.numbers == UNKNOWN_NUMBER).sum())
    counts = Counter(read=len(paragraph.questions), pieces=len(context.numbers), unknown=unknown)
    for question in paragraph.questions:
        pieces = encoder.numbers(question.text)
        target, reason = _target(paragraph.context, context, question)
        if target is not None and not len(pieces):
            target, reason = None, "the question is empty"

        if target is not None:
            text = paragraph.context[context.begin[target[0]] : context.end[target[1]]].strip()
            exact, f1 = scores(text, (answer.text for answer in question.answers), split)
            counts.update(exact=int(exact), f1=f1, targets=1, long=int(target[1] - target[0] >= LONG))

        questions.append((pieces, target or (-1, -1), reason))
    return Encoded(context, questions, counts)


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
