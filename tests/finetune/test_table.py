"""The table of made run folders: medians, best learning rates, averages, and what is missing."""

import json
import statistics

import pytest

from tupe.data.languages import TEST_LANGUAGES
from tupe.finetune.columns import GLUE, XTREME
from tupe.finetune.published import ROWS
from tupe.finetune.runs import SWEEP, Run
from tupe.finetune.table import Cell, as_json, markdown, read_sweep, shown
from tupe.util import write_json


def grid(tasks, lrs, seeds):
    return [Run(task, lr, seed) for task in tasks for lr in lrs for seed in seeds]


def plan(out, runs):
    write_json(out / SWEEP, {"model": "tupe_base", "updates": 300_000, "runs": [run._asdict() for run in runs]})


def finish(out, run, score, metric="accuracy", **metrics):
    folder = out / run.folder
    folder.mkdir(parents=True)
    (folder / "result.json").write_text(json.dumps({"score": score, "metric": metric, "metrics": metrics}))


@pytest.fixture
def out(tmp_path):
    """CoLA complete; MNLI with two runs missing; nothing of RTE."""
    runs = grid(["CoLA", "MNLI", "RTE"], [2e-5, 3e-5], [1, 2, 3])
    plan(tmp_path, runs)
    for lr, scores in ((2e-5, (50.0, 60.0, 90.0)), (3e-5, (61.0, 62.0, 10.0))):
        for seed, score in enumerate(scores, 1):
            finish(tmp_path, Run("CoLA", lr, seed), score, "mcc")
    for lr, scores in ((2e-5, (84.0, 80.0, 82.0)), (3e-5, (70.0,))):
        for seed, score in enumerate(scores, 1):
            finish(tmp_path, Run("MNLI", lr, seed), score, valid1={"accuracy": 90.0 + seed if lr == 2e-5 else 99.0})
    return tmp_path


def test_median_then_best_learning_rate(out):
    row = read_sweep(out)
    assert row.name == "tupe_base, 300,000 updates"
    assert "| 82.00 ± 2.00 (4 of 6 runs) | 92.00 ± 1.00 (4 of 6 runs) | 61.00 ±" in markdown([row])
    cola = row.cells["CoLA"]
    assert (cola.score, cola.lr, cola.finished, cola.planned) == (61.0, 3e-5, 6, 6)
    assert cola.deviation == pytest.approx(statistics.stdev([61.0, 62.0, 10.0]))
    assert row.cells["MNLI-m"].score == 82.0
    assert row.cells["MNLI-mm"].score == 92.0  # at the learning rate that is best for MNLI-m
    assert row.cells["RTE"] == Cell(None, planned=6)
    for lr in (3e-5, 2e-5):
        finish(out, Run("RTE", lr, 1), 50.0)
    assert read_sweep(out).cells["RTE"].lr == 2e-5  # the lower of equal rates


def test_a_column_is_its_metric_by_whichever_the_best_epoch_was_chosen(tmp_path):
    plan(tmp_path, grid(["MRPC"], [2e-5, 3e-5], [1]))
    for rate, f1, accuracy in zip((2e-5, 3e-5), (88.0, 89.0), (85.0, 84.0)):
        finish(tmp_path, Run("MRPC", rate, 1), f1, "f1", valid={"accuracy": accuracy, "f1": f1})
    cell = read_sweep(tmp_path).cells["MRPC"]
    assert (cell.score, cell.lr) == (84.0, 3e-5)
    assert {one.task: one.metric for one in GLUE if one.metric != "accuracy"} == {"CoLA": "mcc", "STS-B": "pearson"}


def test_what_no_average_counts_has_none(tmp_path):
    plan(tmp_path, [run := Run("WNLI", 2e-5, 1)])
    finish(tmp_path, run, 56.0)
    assert markdown([read_sweep(tmp_path, "ours")]) == "| | WNLI |\n|---|---:|\n| ours | 56.00 |"


def test_json_holds_the_numbers(out):
    content = json.loads(as_json([read_sweep(out, "ours"), *ROWS["base"]]))
    assert content[0]["cells"]["CoLA"].items() >= {"score": 61.0, "finished": 6, "planned": 6}.items()
    assert content[4]["system"] == "TUPE-R, 1M (TUPE, table 1)" and content[4]["cells"]["CoLA"]["score"] == 63.56
    assert content[0]["cells"]["CoLA"]["scores"] == {"2e-05": [50.0, 60.0, 90.0], "3e-05": [61.0, 62.0, 10.0]}
    assert content[0]["average"] == {"score": None, "columns": ["MNLI-m", "MNLI-mm", "CoLA", "RTE"]}
    assert content[4]["average"]["score"] == pytest.approx((86.21 + 86.19 + 63.56 + 73.56) / 4)


PRINTED = {  # the average column of the paper's tables
    "base": [82.96, 83.66, 84.47, 85.04, 83.33, 83.68, 83.81, 83.64],
    "large": [85.82, 87.39, 85.56],
    "electra": [85.38, 86.07, 85.71],
    "diet": [84.8, 85.2, 85.2, 85.2, 84.9, 85.2, 85.0, 84.9, 85.0, 85.0, 85.3, 85.2, 85.2, 82.0, 82.7],
    "xtreme": [55.3, 58.2, 58.6, 57.5, 57.6, 58.0, 58.9, 48.2, 50.8],
}


@pytest.mark.parametrize("size", PRINTED)
def test_published_rows_have_the_published_average(size):
    averaged = [column for column in (*GLUE, *XTREME) if column.name in ROWS[size][0].cells]
    rounding = 0.051 if size in ("diet", "xtreme") else 0.011
    assert [row.average(averaged) for row in ROWS[size]] == [pytest.approx(v, abs=rounding) for v in PRINTED[size]]


def test_languages_have_columns_and_a_mean(tmp_path):
    """The learning rate is the one that is best on English development data, whatever the languages say."""
    runs = grid(["SQuAD"], [1e-5, 2e-5], [1, 2, 3])
    plan(tmp_path, runs)
    for run in runs:
        metrics = {
            f"XQuAD/test-{name}": {"f1": score + run.seed, "exact_match": score - 10.0 * (run.lr == 1e-5)}
            for name, score in (("de", 60.0), ("zh", 40.0), ("ro", 0.0))
        }
        finish(tmp_path, run, 90.0 - 1e6 * run.lr, **metrics)
    row = read_sweep(tmp_path, "ours", by_language=True)
    assert {column.name: row.cells[column.name].score for column in shown([row])} == {
        **{"XQuAD F1": 52.0, "XQuAD EM": 40.0, "MLQA F1": None, "MLQA EM": None},
        **{"XQuAD F1 de": 62.0, "XQuAD F1 zh": 42.0, "XQuAD EM de": 50.0, "XQuAD EM zh": 30.0},
    }
    assert "runs)" not in markdown([row])  # all are finished: MLQA was not prepared
    assert {cell.lr for cell in row.cells.values() if cell.lr} == {1e-5}
    assert "XQuAD F1 de" in as_json([row, *ROWS["xtreme"]]) and "XQuAD F1 de" not in markdown([read_sweep(tmp_path)])


@pytest.mark.parametrize(
    ("languages", "kind", "said"),
    [
        (TEST_LANGUAGES["XNLI"], "test", ""),
        (TEST_LANGUAGES["XNLI"], "valid", "valid"),
        (("en", "de", "qq"), "test", "2 of 15 languages"),
        (("en", "de", "qq"), "valid", "valid, 2 of 15 languages"),
    ],
)
def test_a_mean_says_how_it_differs_from_the_papers(languages, kind, said, tmp_path):
    """A language that they do not have is not in it."""
    run = Run("XNLI", 1e-5, 1)
    plan(tmp_path, [run, Run("XNLI", 1e-5, 2)])
    finish(tmp_path, run, 90.0, **{f"XNLI/{kind}-{name}": {"accuracy": 50.0 - (name == "qq")} for name in languages})
    row = read_sweep(tmp_path, "ours")
    assert f"| ours | 50.00 (1 of 2 runs{said and f'; {said}'}) |" in markdown([row, *ROWS["xtreme"]])
    assert json.loads(as_json([row]))[0]["cells"]["XNLI"]["differs"] == said
    finish(tmp_path, Run("XNLI", 1e-5, 2), 90.0)
    assert f"| ours | 50.00{said and f' ({said})'} |" in markdown([read_sweep(tmp_path, "ours")])


@pytest.mark.parametrize(("kind", "said"), [("test", ""), ("valid", " (valid)")])
def test_the_transfer_gap_is_english_less_the_mean_of_the_others(kind, said, tmp_path):
    runs = grid(["XNLI"], [1e-5], [1, 2, 3])
    plan(tmp_path, runs)
    for run in runs:
        scores = {"en": 80.0 + 3 * run.seed, "de": 70.0, "sw": 50.0 + run.seed}
        finish(tmp_path, run, 90.0, **{f"XNLI/{kind}-{name}": {"accuracy": score} for name, score in scores.items()})
    row = read_sweep(tmp_path, "ours", by_language=True)
    names = [column.name for column in shown([row])]
    assert names == ["XNLI", *(f"XNLI {language}{said}" for language in ("de", "en", "sw")), "XNLI gap"]
    assert row.cells["XNLI gap"].score == 86.0 - (70.0 + 52.0) / 2
    assert row.average([column for column in shown([row]) if column.averaged]) == row.cells["XNLI"].score
    for run in runs:  # a language whose answers are secret
        (tmp_path / run.folder / "result.json").unlink()
        (tmp_path / run.folder).rmdir()
        finish(tmp_path, run, 90.0, **{"XNLI/test-en": {"accuracy": 1.0}, "XNLI/test-de": {"accuracy": None}})
    assert read_sweep(tmp_path, by_language=True).cells["XNLI gap"].score is None
