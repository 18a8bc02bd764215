"""Exact match and F1 as the official scripts give them: by hand, and with TUPE_QA_SCORING what was recorded of them."""

import json
import os
from pathlib import Path

import pytest

from tests.data.conftest import squad, write_json
from tupe.cli.main import main
from tupe.data.questions import read, score
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
    ("mlqa", "es", "el río, $", ["río"], True, 1.0),
    ("mlqa", "vi", "những con sông", ["con sông"], True, 1.0),
    ("mlqa", "ar", "والبيت القديم", ["و بيت قديم"], True, 1.0),
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
    assert "1 question(s) without a prediction count as 0, such as b" in printed.err


@pytest.fixture(scope="module")
def golden():
    if "TUPE_QA_SCORING" not in os.environ:
        pytest.skip("TUPE_QA_SCORING names no folder with qa_metric_golden.json and xtreme_mock")
    return Path(os.environ["TUPE_QA_SCORING"])


PREDICTIONS = {
    "drop_last": lambda context, answer, at: answer[:-1],
    "first_five": lambda context, answer, at: " ".join(context.split()[:5]),
    "context_around": lambda context, answer, at: context[max(0, at - 8) : at + len(answer) + 8],
}


def test_recorded_scores_of_the_official_scripts(golden):
    recorded = json.loads((golden / "qa_metric_golden.json").read_text())
    cases = [("squad", "en", case) for case in recorded["cases"]["squad_v1.1"]]
    cases += [("mlqa", language, case) for language, of in recorded["cases"]["mlqa"].items() for case in of]
    assert len(cases) == 81
    for rules, language, case in cases:
        exact, f1 = scores(case["prediction"], case["answers"], tokens(rules, language))
        assert (exact, f1) == (bool(case["em"]), pytest.approx(case["f1"], abs=1e-6)), case
    for file, totals in recorded["totals"].items():
        paragraphs = read(golden.parent / file)
        of = tokens("mlqa", file.partition("context-")[2][:2]) if "mlqa" in file else tokens("squad", "en")
        for name, make in PREDICTIONS.items():
            predictions = {
                question["id"]: make(paragraph["context"], answer, paragraph["context"].find(answer))
                for paragraph in paragraphs
                for question in paragraph["qas"]
                for answer in [question["answers"][0]["text"]]
            }
            assert score(paragraphs, predictions, of) == pytest.approx(totals[name], abs=1e-6)
