"""Read questions from the JSON of SQuAD v1.1, which MLQA, XQuAD and TyDiQA-GoldP share."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tupe.data.corpus.reader import open_packed
from tupe.util import UserError


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
    """Return the paragraphs of a file, which may be packed by xz, gzip or bzip2; texts are as they stand there.

    Answers without text, as in XTREME's test sets, are left out.
    """
    return [_paragraph(item) for article in read_packed_json(path)["data"] for item in article["paragraphs"]]


def read_packed_json(path: Path) -> Any:
    """Read a JSON file, which may be packed."""
    with open_packed(path) as file:
        return json.loads(file.read())


def _paragraph(item: dict[str, Any]) -> Paragraph:
    return Paragraph(item["context"], tuple(map(_question, item["qas"])))


def _question(item: dict[str, Any]) -> Question:
    if item.get("is_impossible"):
        raise UserError(f"Question {item['id']} has no answer (is_impossible), as in SQuAD v2. Expected SQuAD v1.1.")
    answers = (Answer(answer["text"], int(answer["answer_start"])) for answer in item.get("answers", ()))
    return Question(str(item["id"]), item["question"], tuple(answer for answer in answers if answer.text))
