"""Tables from made records, with numbers computed apart from them."""

import dataclasses

import numpy as np
import pytest
import scipy.stats

from tests.commands import ROOT
from tests.experiments.study.conftest import MACHINE, finetuning, pretraining
from tupe.analysis.length import LengthLoss
from tupe.cli.main import main
from tupe.cli.study_report import DOCUMENTS
from tupe.errors import UserError
from tupe.experiments.study.design import Run
from tupe.experiments.study.document import read_results, render
from tupe.experiments.study.figures import plot_longer, plot_scores
from tupe.experiments.study.records import Cost
from tupe.experiments.study.statistics import half_interval, share
from tupe.experiments.study.tables import BLOCKS, Results


@pytest.mark.parametrize("number", [*range(2, 12), 30])
def test_interval(number):
    values = np.random.default_rng(number).normal(size=number)
    low, high = scipy.stats.t.interval(0.95, number - 1, values.mean(), scipy.stats.sem(values))
    assert half_interval(values.tolist()) == pytest.approx((high - low) / 2, abs=1e-3)


def test_one_value_has_no_interval():
    assert half_interval([3.0]) is half_interval([]) is None


def test_share():
    curve = ((20, 9.0), (40, 8.0), (60, 6.0), (100, 5.0))
    assert share(curve, 7.0) == pytest.approx(0.5)
    assert share(curve, 5.0) == 1
    assert share(curve, 9.5) == 0.2
    assert share(curve, 4.9) is None


@pytest.fixture
def results(design, leave, search):
    records = {
        **search,
        Run("final", "bert_a", 1): pretraining(9.0, 8.0, 7.0, 6.5, 6.0, lr=0.002),
        Run("final", "bert_a", 2): pretraining(9.0, 8.0, 7.0, 6.6, 6.2, lr=0.002),
        Run("final", "bert_a_scaled", 1): dataclasses.replace(
            pretraining(8.0, 6.0, 5.0, 4.9, 4.8, lr=0.002), heads={"local": 3, "next": 1},
            loss_by_position={"4": (0.0, 1.0, 2.0, 4.0), "8": (None, 1.0, None, 1.0, 2.0, 2.0, 3.0, 5.0)},
        ),
        Run("final", "bert_a_scaled", 2): pretraining(8.0, 7.0, 5.4, 5.3, 5.2, lr=0.002),
        Run("final", "roberta", 1): pretraining(9.0, 8.5, 8.0, 7.5, 7.0, lr=0.001),
        Run("glue", "bert_a", 1, at="end"): finetuning(CoLA=10.0, STS_B=50.0),
        Run("glue", "bert_a", 2, at="end"): finetuning(CoLA=14.0),
        Run("cost", "all", 1): Cost(
            {}, *MACHINE, "one core",
            {"bert_a": {"training": (1.0, 1.0, 1.0)}, "tupe_r": {"training": (1.02, 1.0625, 1.1)}},
        ),
    }  # fmt: skip
    return read_results(str(leave(records).parent / "made.yaml"), leave({}))


def table(results, name):
    """The rows of a table, by their first cell."""
    rows = [line.strip("| ").split(" | ") for line in BLOCKS[name](results) if line.startswith("|")]
    return {row[0]: row[1:] for row in rows}


def test_pretraining(results):
    rows = table(results, "pretraining")
    assert rows["BERT-A"] == ["1,234,567", "0.002", "2", "6.100 ± 0.141", "–", "30.0"]
    # -1.2 and -1.0 with the same seeds: t of one degree of freedom times the standard error of 0.1
    assert rows["scaled"] == ["1,234,567", "0.002", "2", "5.000 ± 0.283", "-1.100 [-2.371, +0.171]", "30.0"]
    assert rows["RoBERTa"][3:5] == ["7.000", "+1.000"]
    assert "TUPE-R" not in rows


def test_the_baseline_is_that_of_the_study(results):
    assert table(results, "pretraining")["system"][4] == "minus BERT-A's"
    results.design = dataclasses.replace(results.design, baseline="roberta")
    rows = table(results, "pretraining")
    assert rows["system"][4] == "minus RoBERTa's"
    assert rows["BERT-A"][4] == "-1.000" and rows["RoBERTa"][4] == "–"
    assert table(results, "summary")["system"][2] == "RoBERTa's final loss after"


def test_one_seed_means_nothing(results):
    sentence = "one seed: a difference from another system may come from the seed, and means nothing."
    assert BLOCKS["pretraining"](results)[-1] == f"RoBERTa: there is {sentence}"
    assert sentence not in "\n".join(BLOCKS["ablations"](results))  # of BERT-A and scaled, with two seeds each
    for name in ("bert_a", "bert_a_scaled"):
        del results.records[Run("final", name, 2)]
    for block in ("pretraining", "summary", "ablations"):
        assert BLOCKS[block](results)[-1] == f"All have {sentence}"


def test_summary(results):
    """The papers' systems alone, from the lowest loss; a score where all tasks were fine-tuned."""
    results.records[Run("final", "tupe_r", 1)] = pretraining(9.0, 7.0, 6.0, 5.0, 4.5, lr=0.002)
    rows = table(results, "summary")
    assert list(rows)[2:] == ["TUPE-R", "BERT-A", "RoBERTa"]
    assert rows["TUPE-R"] == ["1", "4.500", "60%", "–", "1.06", "–"]
    assert rows["BERT-A"] == ["2", "6.100 ± 0.141", "–", "30.0", "1.00", "–"]
    assert rows["RoBERTa"] == ["1", "7.000", "never", "–", "–", "–"]
    assert {name: row for name, row in rows.items() if name != "RoBERTa"} == table(results, "headline")


def test_shares(results):
    rows = table(results, "shares")
    assert rows["scaled"] == ["45 [0, 100]%"]  # 40% and 50%, cut off where shares end
    assert rows["RoBERTa"] == ["never"]


def test_ablations(results):
    rows = table(results, "ablations")
    assert rows["what is added"][-1] == "validation loss, bits"
    assert rows["TUPE's scale of the words' logits"] == ["scaled, BERT-A", "2", "-1.100 [-2.371, +0.171]"]
    assert len(rows) == 3  # and the line under the head: the other systems have no runs


def test_rates(results):
    assert table(results, "rates")["BERT-A"] == ["8.500", "**8.000**"]
    assert BLOCKS["rates"](results)[-1].endswith("BERT-A (0.002), scaled (0.002), TUPE-R (0.002), RoBERTa (0.001).")


def test_glue_and_cost(results):
    assert table(results, "glue")["BERT-A"] == ["100", "2", "12.0 ± 2.8", "50.0", "30.0"]
    results.design = dataclasses.replace(
        results.design, finetuning=dataclasses.replace(results.design.finetuning, tasks=("MNLI", "CoLA"))
    )
    results.records[Run("glue", "bert_a", 1, at="end")] = tuned = finetuning(MNLI_m=70.0, MNLI_mm=71.0, CoLA=10.0)
    tuned.scores["MNLI-mm"]["0.2"] = (99.0,)  # of a rate that is not the best for MNLI-m
    assert table(results, "glue")["system"] == ["updates", "seeds", "MNLI-m", "MNLI-mm", "CoLA", "average"]
    assert table(results, "glue")["BERT-A"] == ["100", "2", "70.0", "71.0", "12.0 ± 2.8", "50.3"]
    assert table(results, "cost")["TUPE-R"] == ["1.06 (1.02-1.10)", "–"]
    assert BLOCKS["cost"](results)[-1] == "one core."


def test_longer(results, leave, tmp_path):
    """Differences to the length of training, over the seeds; a length that a model has not is its own windows'."""
    zero = LengthLoss(4.0, 0.0, 0.0, (4.0,))
    found = [
        {
            "none": {"4": zero, "8": LengthLoss(4.5, more, 0.1, (4.0, 5.0))},
            "window": {"8": LengthLoss(4.0, 0.25, 0.1, ())},
        }
        for more in (0.5, 0.7)
    ]
    for seed, losses in enumerate(found, 1):
        run = Run("final", "bert_a", seed)
        results.records[run] = dataclasses.replace(results.records[run], loss_by_length=losses)
    run = Run("final", "bert_a_scaled", 1)
    results.records[run] = dataclasses.replace(results.records[run], loss_by_length={"none": {"4": zero}})
    results = read_results(str(leave(results.records).parent / "made.yaml"), leave({}))  # as they are written and read
    rows = table(results, "longer")
    assert rows["system"] == ["loss at the length of training", "4", "8"]
    assert rows["BERT-A"] == ["4.000 ± 0.000", "0", "+0.600 [-0.671, +1.871]"]
    assert rows["BERT-A, window"] == ["4.000 ± 0.000", "0 (slid)", "+0.250 [+0.250, +0.250]"]
    assert not plot_longer(Results(results.design, {}), tmp_path / "none.png")
    assert plot_longer(results, tmp_path / "longer.png") and (tmp_path / "longer.png").stat().st_size > 10_000
    assert rows["scaled"] == ["4.000", "0", "0 (slid)"]


def test_scores_against_losses(results, tmp_path):
    """Losses of the curve at those updates: 6.0 and 6.2 at the end, 9.0 and 8.0 on the way; ranks alone count."""
    assert not plot_scores(Results(results.design, {}), tmp_path / "none.png")
    results.records[Run("glue", "bert_a", 1, at="mid")] = finetuning(CoLA=2.0)
    results.records[Run("glue", "bert_a_scaled", 2, at="mid")] = finetuning(CoLA=3.0)
    assert results.losses_and_scores("bert_a", results.columns[0], "end") == [(6.0, 10.0), (6.2, 14.0)]
    assert results.losses_and_scores("bert_a", results.columns[0], "mid") == [(9.0, 2.0)]
    rows = table(results, "correlation")
    assert rows["score"] == ["ends alone", "with those after 20 updates"]
    assert rows["CoLA"] == ["–", "-0.80 of 4"] and "STS-B" not in rows
    assert plot_scores(results, tmp_path / "scores.png") and (tmp_path / "scores.png").stat().st_size > 10_000


def test_length_and_heads(results):
    rows = table(results, "length")
    assert rows["system"] == ["4: positions 1 to 1", "2 to 3", "8: positions 1 to 3", "4 to 7"]
    assert rows["scaled"] == ["1.000", "3.000", "1.000", "3.000"]
    assert table(results, "heads")["scaled"] == ["0.0", "3.0", "0.0", "0.0", "1.0"]  # global, local, ..., next


def test_what_is_missing_is_said(results, design):
    text = "\n".join(BLOCKS["state"](results))
    assert text.startswith("16 of 25 runs, 13.0 processor hours, on abacus; PyTorch 2.0.")
    assert "Missing: 1 of `final`, 8 of `glue`." in text
    assert "**Not complete**, seeds done: TUPE-R 0 of 1." in text


def test_a_document(results, tmp_path, leave, capsys, monkeypatch):
    """What people wrote stays, what stands between marks is made anew, and again."""
    document = tmp_path / "results.md"
    size = tmp_path / "made.yaml"
    document.write_text(
        "# Ours\n\n<!-- study made pretraining -->\nold\n<!-- end -->\nand <!-- study made curves -->\n"
        "<!-- end -->\nthe end\n"
    )
    written = render(document, leave({}), str(size))
    first = document.read_text()
    assert "old" not in first and first.startswith("# Ours\n") and first.endswith("\nthe end\n")
    assert "| BERT-A | 1,234,567 |" in first and "![Validation loss" in first
    assert [path.suffix for path in written] == [".md", ".png"] and written[1].stat().st_size > 10_000
    assert main(["study-report", "--size", str(size), "--document", str(document), "--records", str(leave({}))]) == 0
    assert document.read_text() == first
    assert main(["study-report", "--size", str(size), "--document", str(document), "--records", str(tmp_path)]) == 1
    said = capsys.readouterr().err
    assert "made has no records" in said and "would be lost: give --records" in said
    assert document.read_text() == first
    document.write_text("<!-- study made costs -->\n<!-- end -->")
    with pytest.raises(
        UserError,
        match="has a mark 'costs': the marks are curves, started, lengthened, scores, state, headline, summary",
    ):
        render(document, leave({}), str(size))
    document.write_text("<!-- study made rates -->\nmine\n<!-- study made pretraining -->\n<!-- end -->")
    with pytest.raises(UserError, match=r"has the mark 'rates' without its end: write <!-- end --> behind its table"):
        render(document, leave({}), str(size))
    assert "mine" in document.read_text()
    document.write_text("<!-- study made pretraining -->\n")
    with pytest.raises(UserError, match=r"results\.md has no marks to fill: write some, as <!-- study cpu glue"):
        render(document, leave({}), str(size))
    capsys.readouterr()
    assert main(["study-report", "--size", str(size), "--records", str(leave({})), "--print", "rates"]) == 0
    assert capsys.readouterr().out.startswith("| system | 0.001 | 0.002 |")
    (tmp_path / "empty").mkdir()
    assert main(["study-report", "--size", str(size), "--records", str(tmp_path / "empty"), "--print", "rates"]) == 1
    assert "has no records: give --records the folder above the one where" in capsys.readouterr().err
    monkeypatch.chdir(tmp_path)
    assert main(["study-report", "--records", "nowhere", "--print", "rates"]) == 1
    assert "there is no folder nowhere: give --records" in capsys.readouterr().err
    assert main(["study-report", "--records", "nowhere"]) == 1
    assert "there is no docs/results.md here: run this in the clone" in capsys.readouterr().err
    document.write_text("no marks")
    assert main(["study-report", "--size", "nosuch", "--document", str(document)]) == 1
    assert "there is no study nosuch: give one of" in capsys.readouterr().err


@pytest.mark.parametrize("page", map(str, DOCUMENTS))
def test_the_pages_are_what_the_records_say(page, tmp_path):
    document = tmp_path / "page.md"
    document.write_text((ROOT / page).read_text())
    render(document, ROOT / "docs/results/runs")
    assert document.read_text() == (ROOT / page).read_text(), "tupe study-report --document makes it anew"


def test_nothing_yet(design, tmp_path):
    results = read_results(str(tmp_path / "made.yaml"), tmp_path / "none")
    assert BLOCKS["state"](results) == ["No run of this size has been done yet."]
    assert all(BLOCKS[name](results) for name in BLOCKS)


def test_records_that_are_no_folder(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match=r"file is not a folder: give --records"):
        read_results("cpu", tmp_path / "file")
