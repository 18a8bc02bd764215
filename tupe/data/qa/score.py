"""Score a file of predictions like the official scripts: exact match and F1, in percent of all questions."""

from collections.abc import Mapping
from pathlib import Path

from tupe.data.qa.reader import Paragraph, read, read_packed_json
from tupe.data.qa.rules import Tokens, scores
from tupe.util import UserError


def score(paragraphs: list[Paragraph], predictions: Mapping[str, str], of: Tokens) -> dict[str, float] | None:
    """Compute `exact_match` and `f1`, means over all questions; a question without a prediction counts 0.

    Returns None if no question has an answer.
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
    paragraphs, predicted = read(reference), read_predictions(predictions)
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


def read_predictions(path: Path) -> dict[str, str]:
    """Read predictions as SQuAD's and XTREME's scripts read them."""
    return read_packed_json(path)
