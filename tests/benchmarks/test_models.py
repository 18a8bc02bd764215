"""The benchmarks of whole models measure every rival, in one round; what `model.py` writes is what figures read."""

import logging
import re
import runpy
import sys

import pytest

from tests.commands import ROOT, run
from tests.samples import write_task
from tupe.analysis.cost import cost_rows, read_costs

SHORT = ("--rounds", "1", "--warm-up", "0", "--steps", "1", "--device", "cpu")


@pytest.fixture
def rows(monkeypatch, capsys):
    """`rows("translation.py", ...)` runs a benchmark in this process; returns the rows of its tables."""

    def measure(script, *options):
        monkeypatch.syspath_prepend(ROOT / "benchmarks")
        monkeypatch.setattr(sys, "argv", [script, *map(str, options), *SHORT])
        with pytest.raises(SystemExit, match=r"^0$"):
            runpy.run_path(str(ROOT / "benchmarks" / script), run_name="__main__")
        lines = [line.strip("| ").split(" | ") for line in capsys.readouterr().out.splitlines() if line[:1] == "|"]
        return [cells for cells in lines if re.match(r"\d", cells[-1])]  # neither a head nor the line below it

    yield measure
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("script", ["attention.py", "model.py", "translation.py"])
def test_a_device_that_is_not_there(script, monkeypatch, capsys):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    monkeypatch.setattr(sys, "argv", [script, "--device", "3 "])
    with pytest.raises(SystemExit, match=r"^2$"):
        runpy.run_path(str(ROOT / "benchmarks" / script), run_name="__main__")
    assert "argument --device: '3 ' is no device here: give cpu, or cuda" in capsys.readouterr().err


def test_model(tmp_path):
    small = ("--sizes", "tiny", "--batch", "2", "--length", "8", "--vocab-size", "64", "--modes", "training")
    script = ROOT / "benchmarks" / "model.py"
    run(sys.executable, script, *small, *SHORT, "--rivals", "bert_a", "tupe_r", "--output", tmp_path, PYTHONPATH=ROOT)
    conditions, records = read_costs(tmp_path / "model.json")
    assert "2 sequences of 8 tokens, vocabulary 64" in conditions
    assert [(record["size"], record["mode"], record["rival"]) for record in records] == [
        ("tiny", "training", "bert_a"),
        ("tiny", "training", "tupe_r"),
    ]
    assert records[0]["time_over_first"] == [1.0] * 3
    assert records[1]["time_over_first"][1] > 0
    assert cost_rows(records)[0] == ["model", "tiny training"]
    assert (tmp_path / "model.md").read_text().count("\n| tiny | training | ") == 2


def test_finetuning(rows, tmp_path):
    found = rows("finetuning.py", write_task(tmp_path / "CoLA"), "--size", "tiny", "--batch", "4", "--window", "2")
    assert [mode for mode, *_ in found] == 7 * ["training"] + 5 * ["validation"]
    assert all(float(rate.replace(",", "")) > 0 for *_, rate, _ in found)
    assert {name for _, name, *_ in found} >= {"padded", "tokens alone", "RoBERTa, fairseq's"}


def test_imported(rows, tmp_path):
    pytest.importorskip("transformers")
    small = ("--size", "tiny", "--symbols", "64", "--batch", "4", "--window", "2")
    found = rows("imported.py", write_task(tmp_path / "CoLA"), *small)
    ways = ["Transformers", "imported, padded", "imported, tokens alone"]
    assert [name for mode, _, _, name, *_ in found if mode == "training"] == [*ways, *ways, *ways[:2]]
    assert [name for mode, _, _, name, *_ in found if mode == "inference"] == [*ways, *ways, *ways[:2]]
    assert all(float(rate.replace(",", "")) > 0 for *_, rate, _ in found)


def test_translation(rows):
    rivals = ["transformer", "sinusoidal", "tupe_r"]
    small = ("--size", "tiny", "--vocab-size", "50", "--sentences", "3", "--decoded", "2", "--length", "5")
    found = rows("translation.py", *small, "--beam", "2", "--rivals", *rivals)
    assert [name for name, *_ in found] == 2 * rivals
    assert [ratio for *_, ratio in found[::3]] == 2 * ["1.00 (1.00-1.00)"]
