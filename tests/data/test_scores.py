"""Exact match and F1 as the official scripts give them, by hand."""

import json

import pytest

from tests.data.conftest import squad, write_json
from tupe.cli.main import main
from tupe.data.scores import scores, tokens

CASES = [
    ("squad", "en", "The  Apple, a pear!", ["apple pear"], True, 1.0),
    ("squad", "en", "New York City", ["New York", "the City of New York"], False, 6 / 7),
    ("squad", "en", "to be or not to be", ["to be"], False, 0.5),
    ("squad", "en", "...", ["!"], True, 0.0),  # nothing is left of either
    ("squad", "en", "“quoted”", ["quoted"], False, 0.0),  # only ASCII punctuation goes
    ("squad", "de", "der Fluss", ["Fluss"], False, 2 / 3),  # English articles only
    ("squad", "zh", "老房子", ["房子"], False, 0.0),  # a sentence is a word
    ("squad", "en", "x", [], False, 0.0),
    ("mlqa", "de", "„der Fluss“", ["Fluss"], True, 1.0),
    ("mlqa", "es", "el río", ["los ríos"], False, 0.0),
    ("mlqa", "vi", "những con sông", ["con sông"], True, 1.0),
    ("mlqa", "ar", "البيت القديم", ["بيت قديم"], True, 1.0),
    ("mlqa", "hi", "पुराना घर।", ["घर"], False, 2 / 3),
    ("mlqa", "zh", "老 房子。", ["房子"], False, 0.8),
    ("mlqa", "zh", "1885年 New", ["1885 New"], False, 0.8),
]


@pytest.mark.parametrize(("rules", "language", "prediction", "answers", "exact", "f1"), CASES)
def test_by_hand(rules, language, prediction, answers, exact, f1):
    assert scores(prediction, answers, tokens(rules, language)) == (exact, pytest.approx(f1))


def test_questions_without_prediction_count(tmp_path, capsys):
    context = "The old house stands beside the river."
    reference = squad((context, [("a", "what?", "old house", "house"), ("b", "where?", "beside the river")]))
    path = write_json(tmp_path / "reference.json", reference)
    predictions = write_json(tmp_path / "predictions.json", {"a": "the house", "z": "nothing"})
    assert main(["qa-score", str(path), str(predictions)]) == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out) == {"exact_match": 50.0, "f1": 50.0}
    assert "1 question(s) without a prediction count 0, such as b" in printed.err
