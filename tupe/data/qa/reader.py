"""Read questions from the JSON of SQuAD v1.1, which MLQA, XQuAD and TyDiQA-GoldP share."""

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tupe.data.corpus.reader import DAMAGED, open_packed
from tupe.errors import UserError

_SHOWN = 3  # ids that a message names


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

    Raises:
        UserError: if the file is not in the form of SQuAD v1.1, or has an id twice.
    """
    content = read_json(path)
    if not isinstance(content, dict) or not isinstance(content.get("data"), list):
        raise UserError(f'{path} is not SQuAD\'s JSON, an object whose "data" is a list of articles: give such a file.')
    articles: list[list[Paragraph]] = []
    try:
        for article in content["data"]:
            articles.append([_paragraph(item) for item in article["paragraphs"]])
    except UserError as error:
        raise UserError(f"{path} {error}") from None
    except (KeyError, TypeError, AttributeError, ValueError, OverflowError) as error:
        what = f"has no {error}" if isinstance(error, KeyError) else "has a value of another type"
        raise UserError(f"{path} is not SQuAD's JSON: article {len(articles) + 1} in it {what}: get it anew.") from None
    paragraphs = [paragraph for article in articles for paragraph in article]
    ids = Counter(question.id for paragraph in paragraphs for question in paragraph.questions)
    if not ids:
        raise UserError(f"{path} has no questions in it: get it anew.")
    twice = [id_ for id_, count in ids.items() if count > 1]
    if twice:
        raise UserError(f"{path} has {len(twice)} id(s) more than once, such as {shown(twice)}: make them unique.")
    return paragraphs


def read_json(path: Path) -> Any:
    """Read a JSON file, which may be packed. Raise `UserError` if it is missing, cut or not JSON."""
    try:
        with open_packed(path) as file:
            return json.loads(file.read())
    except (FileNotFoundError, IsADirectoryError):
        raise UserError(f"there is no file {path}: give one of JSON.") from None
    except (*DAMAGED, RecursionError, ValueError) as error:
        raise UserError(f"{path} is no JSON, or was cut ({str(error)[:100]}): get it anew.") from None


def shown(ids: list[str]) -> str:
    """Return the first few of a list."""
    return ", ".join(ascii(id_[:40]) for id_ in ids[:_SHOWN])


def _paragraph(item: dict[str, Any]) -> Paragraph:
    return Paragraph(_text(item["context"]), tuple(map(_question, item["qas"])))


def _question(item: dict[str, Any]) -> Question:
    if item.get("is_impossible"):
        raise UserError(
            f"has questions without an answer (is_impossible, id {item['id']}), as SQuAD v2: give a v1.1 file."
        )
    answers = (Answer(_text(answer["text"]), int(answer["answer_start"])) for answer in item.get("answers", ()))
    return Question(str(item["id"]), _text(item["question"]), tuple(answer for answer in answers if answer.text))


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value
