"""Tables and pages are what the records say."""

import pytest

from lab.design import Run, read_design
from lab.records import Record, best_rate, write_record
from lab.report import DOCUMENTS, read_results, render
from lab.tables import BLOCKS, Results
from tests.commands import ROOT, run
from tupe.util import UserError

MACHINE = {"settings": {"run": "made"}, "host": {"processor": "abacus"}, "versions": {"torch": "2.0"}}
DESIGN = """
updates: 100
mid: 20
search: {rates: [0.001, 0.002], updates: 10}
groups:
  - bert_a: {seeds: 2}
    bert_a_scaled: {model: bert_a, label: scaled, seeds: 2}
  - tupe_r: {seeds: 1}
finetuning: {tasks: [MNLI, CoLA], rates: [0.001], seeds: [1, 2]}
"""


def pretraining(*losses, lr=0.002):
    """A record with validations after 20, 40, ... updates."""
    curve = [(20 * (n + 1), loss) for n, loss in enumerate(losses)]
    numbers = {"accuracy": 30.0, "training_seconds": 10.0, "processor_seconds": 3600.0}
    return Record(lr=lr, parameters=1_234_567, curve=curve, **numbers, **MACHINE)


def finetuning(**scores):
    """The median of two seeds at one rate, for each column, and a lower score at another rate."""
    found = {name.replace("_", "-"): {"0.1": [s - 1, s + 1], "0.2": [s - 3]} for name, s in scores.items()}
    return Record(scores=found, **MACHINE)


@pytest.fixture
def results(tmp_path):
    path = tmp_path / "made.yaml"
    path.write_text(DESIGN)
    design = read_design(str(path))
    records = {
        Run("search", name, 1, lr): pretraining(9 - 100 * lr, lr=lr) for name in design.systems for lr in (0.001, 0.002)
    }
    for name, seed, *losses in (
        ("bert_a", 1, 9.0, 8.0, 7.0, 6.5, 6.0),
        ("bert_a", 2, 9.0, 8.0, 7.0, 6.6, 6.2),
        ("bert_a_scaled", 1, 8.0, 6.0, 5.0, 4.9, 4.8),
        ("bert_a_scaled", 2, 8.0, 7.0, 5.4, 5.3, 5.2),
    ):
        records[Run("final", name, seed)] = pretraining(*losses)
    records[Run("glue", "bert_a", 1, at="end")] = finetuning(MNLI_m=70.0, MNLI_mm=71.0, CoLA=10.0)
    records[Run("glue", "bert_a", 2, at="end")] = finetuning(CoLA=14.0)
    return Results(design, records)


def rows(results, name):
    """The rows of a table, by their first cell."""
    found = [line.strip("| ").split(" | ") for line in BLOCKS[name](results) if line.startswith("|")]
    return {row[0]: row[1:] for row in found}


@pytest.mark.parametrize("page", DOCUMENTS, ids=lambda page: page.name)
def test_the_pages_are_what_the_records_say(page, tmp_path):
    document = tmp_path / "page.md"
    document.write_text(page.read_text())
    render(document, ROOT / "docs/results/runs")
    assert document.read_text() == page.read_text(), "python -m lab.report makes it anew"


def test_numbers(results):
    # -1.2 and -1.0 with the same seeds: t of one degree of freedom times the standard error of 0.1
    found = rows(results, "pretraining")
    assert found["scaled"] == ["1,234,567", "0.002", "2", "5.000 ± 0.283", "-1.100 [-2.371, +0.171]", "30.0"]
    assert "TUPE-R" not in found
    assert rows(results, "shares")["scaled"] == ["45 [0, 100]%"]  # 40% and 50%, cut off where shares end
    assert rows(results, "rates")["BERT-A"] == ["8.900", "**8.800**"]
    mismatched = results.records[Run("glue", "bert_a", 1, at="end")].scores["MNLI-mm"]
    mismatched["0.2"] = [99.0]  # not the best rate for MNLI-m
    assert rows(results, "glue")["BERT-A"] == ["100", "2", "70.0", "71.0", "12.0 ± 2.8", "50.3"]
    assert results.losses_and_scores("bert_a", results.columns[2], "end") == [(6.0, 10.0), (6.2, 14.0)]
    assert BLOCKS["state"](results)[1:] == ["Missing: 1 of `final`, 8 of `glue`."]
    results.design.groups[1]["no_positions"] = results.design.groups[1]["tupe_r"]
    results.records[Run("final", "no_positions", 1)] = pretraining(6.05)
    assert BLOCKS["pretraining"](results)[-3].endswith("bits below no_positions: BERT-A.")
    for search in results.design.searches("bert_a"):
        results.records[search].diverged = True
    assert best_rate(results.design, "bert_a", results.records) is None


def test_a_document(results, tmp_path):
    """What people wrote stays, what stands between marks is made anew, and a study without records loses no table."""
    for one, record in results.records.items():
        write_record(tmp_path / "records/made", one, record)
    document = tmp_path / "results.md"
    document.write_text("# Ours\n\n<!-- study made pretraining -->\nold\n<!-- end -->\nthe end\n")
    command = ("python", "-m", "lab.report", "--size", tmp_path / "made.yaml", "--records", tmp_path / "records")
    run(*command, "--document", document)
    first = document.read_text()
    assert "old" not in first and first.startswith("# Ours\n") and first.endswith("\nthe end\n")
    assert "| BERT-A | 1,234,567 |" in first
    assert "| scaled | 1,234,567 |" in run(*command, "--print", "pretraining").stdout
    with pytest.raises(UserError, match="No records of made"):
        render(document, tmp_path / "none", str(tmp_path / "made.yaml"))
    assert document.read_text() == first
    assert all(BLOCKS[name](read_results("gpu", tmp_path / "none")) for name in BLOCKS)
