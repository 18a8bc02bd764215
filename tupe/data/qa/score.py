"""Score a file of predictions like the official scripts: exact match and F1, in percent of all questions."""

from collections.abc import Mapping
from pathlib import Path

from tupe.data.qa.reader import Paragraph, read, read_json, shown
from tupe.data.qa.rules import Tokens, scores
from tupe.errors import UserError


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
        UserError: if a file is not what it should be, or if no prediction is of a question.
    """
    paragraphs, predicted = read(reference), read_predictions(predictions)
    ids = [question.id for paragraph in paragraphs for question in paragraph.questions]
    known = set(ids)
    missing, others = [id_ for id_ in ids if id_ not in predicted], [id_ for id_ in predicted if id_ not in known]
    if len(missing) == len(ids):
        raise UserError(
            f"{predictions} has no prediction for any of the {len(ids)} questions of {reference}: give its own."
        )
    result = score(paragraphs, predicted, of)
    if result is None:
        raise UserError(
            f"{reference}: none of the questions has an answer, so that nothing can be scored: the file keeps them "
            "back."
        )
    warnings = []
    if missing:
        warnings.append(f"{len(missing)} question(s) have no prediction and count 0, such as {shown(missing)}")
    if others:
        warnings.append(f"{len(others)} prediction(s) are of other questions, such as {shown(others)}")
    return result, warnings


def read_predictions(path: Path) -> dict[str, str]:
    """Read predictions as SQuAD's and XTREME's scripts read them."""
    content = read_json(path)
    if not isinstance(content, dict) or not all(isinstance(text, str) for text in content.values()):
        raise UserError(
            f"{path} holds no predictions, an object that has a text for each id: give what `tupe predict` wrote."
        )
    return content
