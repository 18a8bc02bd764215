"""Scores against updates, from the sweeps of several checkpoints."""

import json

import pytest

from tupe.cli.main import main
from tupe.errors import UserError
from tupe.experiments.plan import Plan
from tupe.experiments.runs import grid
from tupe.experiments.scores import score_curves
from tupe.experiments.table import by_label


def sweep(out, model, updates, scores):
    """A sweep with the scores of three seeds a task."""
    runs = grid(list(scores), [2e-5], [1, 2, 3])
    Plan("c.pt", f"{model}{updates}", model, updates, "d", (), tuple(runs), {}).join(out)
    for run in runs:
        (out / run.folder).mkdir(parents=True)
        (out / run.folder / "result.json").write_text(json.dumps({"score": scores[run.task] + run.seed}))
    return out


@pytest.fixture
def sweeps(tmp_path):
    """TUPE-R after 300 and 100 updates, in that order; BERT-A after 300."""
    return [
        ("", sweep(tmp_path / "b", "tupe_base reset=none", 300, {"CoLA": 60.0, "RTE": 70.0})),
        ("", sweep(tmp_path / "a", "tupe_base reset=none", 100, {"CoLA": 40.0, "RTE": 60.0})),
        ("BERT-A", sweep(tmp_path / "c", "bert_a_base", 300, {"CoLA": 50.0, "RTE": 61.0})),
    ]


def test_a_line_for_each_system(sweeps):
    curves = score_curves(by_label(sweeps))
    ours, theirs = curves["tupe_base reset=none"], curves["BERT-A"]
    assert (ours.updates, ours.values, ours.score) == ((100, 300), (52.0, 67.0), "average of 2 columns")
    assert (theirs.updates, theirs.values) == ((300,), (57.5,))
    cola = score_curves(by_label(sweeps), "CoLA")["tupe_base reset=none"]
    assert (cola.values, cola.spread, cola.score) == ((42.0, 62.0), (1.0, 1.0), "CoLA")


def test_the_command_draws_it(sweeps, tmp_path, capsys):
    arguments = [f"{label}={out}" if label else str(out) for label, out in sweeps]
    assert main(["plot", "scores", *arguments, "--column", "RTE", "--output", str(tmp_path / "s.svg")]) == 0
    text = (tmp_path / "s.svg").read_text()
    assert all(said in text for said in ("tupe_base reset=none", "BERT-A", "RTE (percent)", "updates of pre-training"))
    assert main(["plot", "scores", *arguments, "--column", "MNLI-m", "--output", str(tmp_path / "t.svg")]) == 1
    assert "there is no column MNLI-m in these sweeps: take one of CoLA, RTE" in capsys.readouterr().err


def test_scores_that_cannot_be_compared(sweeps, tmp_path):
    with pytest.raises(UserError, match="A has two sweeps after 300 updates"):
        score_curves(by_label([("A", out) for _, out in sweeps]))
    unfinished = ("", sweep(tmp_path / "d", "bert_a_base", 100, {"CoLA": 50.0}))
    with pytest.raises(UserError, match=r"bert_a_base, 100 updates has no score of RTE yet"):
        score_curves(by_label([*sweeps, unfinished]))
