"""What is run, in which order, and which designs are none."""

import pytest

from tests.experiments.study.conftest import DESIGN
from tupe.errors import UserError
from tupe.experiments.study.design import read_design
from tupe.experiments.study.records import best_rate
from tupe.experiments.study.training import check
from tupe.systems import SYSTEMS


def test_the_order(design):
    """A group's search, then its first seed, then its second; what needs checkpoints comes after all of them."""
    assert [str(run) for run in design.runs()] == [
        "search/bert_a.lr_0.001", "search/bert_a.lr_0.002",
        "search/bert_a_scaled.lr_0.001", "search/bert_a_scaled.lr_0.002",
        "final/bert_a.seed_1", "final/bert_a_scaled.seed_1", "final/bert_a.seed_2", "final/bert_a_scaled.seed_2",
        "search/tupe_r.lr_0.001", "search/tupe_r.lr_0.002", "search/roberta.lr_0.001", "search/roberta.lr_0.002",
        "final/tupe_r.seed_1", "final/roberta.seed_1",
        "glue/bert_a.seed_1.end", "glue/bert_a_scaled.seed_1.end",
        "glue/bert_a.seed_2.end", "glue/bert_a_scaled.seed_2.end",
        "glue/bert_a.seed_1.mid", "glue/bert_a_scaled.seed_1.mid",
        "glue/bert_a.seed_2.mid", "glue/bert_a_scaled.seed_2.mid",
        "glue/tupe_r.seed_1.end", "glue/tupe_r.seed_1.mid", "cost/all.seed_1",
    ]  # fmt: skip


def test_no_seeds_are_the_search_alone(tmp_path):
    path = tmp_path / "made.yaml"
    path.write_text(DESIGN.replace("tupe_r: {seeds: 1", "tupe_r: {seeds: 0"))
    found = {run.part for run in read_design(str(path)).runs() if run.system == "tupe_r"}
    assert found == {"search"}


def test_a_row_may_be_searched_further(tmp_path):
    path = tmp_path / "made.yaml"
    path.write_text(DESIGN.replace("tupe_r: {seeds: 1", "tupe_r: {rates: [0.004, 0.0005], seeds: 1"))
    found = read_design(str(path))
    assert found.rates("tupe_r") == [0.0005, 0.001, 0.002, 0.004]
    assert [run.lr for run in found.runs() if run.part == "search" and run.system == "bert_a"] == [0.001, 0.002]


@pytest.mark.parametrize("rates", ["rates: [0.002], updates: 10, seed: 1", "rates: [0.002]"])
def test_a_single_rate_is_taken_without_a_search(rates, tmp_path):
    path = tmp_path / "made.yaml"
    path.write_text(DESIGN.replace("rates: [0.001, 0.002], updates: 10, seed: 1", rates))
    found = read_design(str(path))
    assert {run.part for run in found.runs()} == {"final", "glue", "cost"}
    assert best_rate(found, "tupe_r", {}) == 0.002
    path.write_text(path.read_text().replace("tupe_r: {seeds: 1", "tupe_r: {rates: [0.001], seeds: 1"))
    if "updates" in rates:
        found = read_design(str(path))
        assert {run.system for run in found.runs() if run.part == "search"} == {"tupe_r"}
        assert best_rate(found, "tupe_r", {}) is None
    else:
        with pytest.raises(UserError, match=r"has several rates and no search\.updates"):
            read_design(str(path))


def test_the_baseline(design, tmp_path):
    assert design.baseline == "bert_a"
    path = tmp_path / "made.yaml"
    path.write_text(DESIGN + "baseline: roberta\n")
    assert read_design(str(path)).baseline == "roberta"
    path.write_text(DESIGN.replace("  - bert_a: {seeds: 2}\n    bert_a_scaled", "  - bert_a_scaled"))
    assert read_design(str(path)).baseline == "bert_a_scaled"


def test_no_checkpoint_on_the_way(tmp_path):
    path = tmp_path / "made.yaml"
    path.write_text(DESIGN.replace("mid: 20\n", ""))
    assert {run.at for run in read_design(str(path)).runs()} == {"", "end"}


def test_a_search_with_a_seed_that_is_not_started(tmp_path):
    """A search seed that the started row lacks is refused: nobody makes its checkpoint. One rate needs no seed."""
    text = DESIGN.replace("tupe_r: {seeds: 1", "tupe_r: {seeds: 1, start: {row: bert_a}") + "shares: [0.1]\n"
    text = text.replace("seed: 1}", "seed: 2}")
    path = tmp_path / "made.yaml"
    path.write_text(text)
    with pytest.raises(UserError, match=r"searches the rate of tupe_r with the seed 2, and starts 1 seed\(s\) of it"):
        read_design(str(path))
    path.write_text(text.replace("tupe_r: {seeds: 1", "tupe_r: {seeds: 1, lr: 0.001"))
    assert read_design(str(path)).rates("tupe_r") == [0.001]


def test_labels(design):
    assert [design.label(name) for name in design.systems] == ["BERT-A", "scaled", "TUPE-R", "RoBERTa"]


@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        ("bert_x", "starts tupe_r from bert_x, which is no row of this plugin's trained in full"),
        ("roberta", "starts tupe_r from roberta, which is no row of this plugin's trained in full"),
        ("tupe_r", "starts tupe_r from tupe_r, which is no row of this plugin's trained in full"),
        ("few", "starts more seeds of tupe_r than few has"),
    ],
)
def test_starts_from_what_is_not_trained(row, sentence, tmp_path):
    text = DESIGN.replace(
        "tupe_r: {seeds: 1", f"few: {{model: bert_a, seeds: 0}}\n    tupe_r: {{seeds: 1, start: {{row: {row}}}"
    )
    path = tmp_path / "made.yaml"
    path.write_text(text + "shares: [0.1]\n")
    with pytest.raises(UserError, match=sentence):
        read_design(str(path))


def test_of_length():
    """Every row is trained at both rates, nothing is fine-tuned, and no table of distances ends beyond the training."""
    design = read_design("length")
    assert {run.part for run in design.runs()} == {"search", "final"}
    assert design.masks == 4 and design.lengths == (32, 64, 128, 256)
    for name, system in design.systems.items():
        fields = SYSTEMS[design.model(name)]
        if fields["relative"] in ("bucketed", "shaw"):
            assert 16 <= system.settings["+model.relative_max_distance"] < 32, name
        if fields["relative"] == "deberta":
            assert system.settings["+model.relative_buckets"] == 0
            assert 16 <= system.settings["+model.relative_max_distance"] < 32
    assert design.label("bert_a") == "BERT-A"  # which it has not


def test_of_warm_starts():
    """Every row has its source's seeds, a conversion where it has one, and the short runs of the issue."""
    design = read_design("warm_start")
    assert design.short == (0, 120, 240, 600, 1200, 2400)
    runs = list(design.runs())
    assert len({run.path for run in runs}) == len(runs)
    assert {run.system for run in runs if run.part == "short"} == set(design.started)
    assert {run.system for run in runs if run.part == "start"} == {n for n, s in design.started.items() if s.start.row}
    assert {run.system for run in runs if run.part == "final"} == {"bert_a", "tupe_a", "tupe_r"}
    assert not [run for run in runs if run.part == "search" and run.system == "bert_a"]  # its rate is known
    assert {design.model(name) for name in design.started} == {"bert_a", "bert_r", "tupe_a", "tupe_r", "t5", "diet_abs"}


@pytest.mark.parametrize("size", ["cpu", "gpu"])
def test_those_of_the_repository(size):
    """The papers' ten, with as many seeds as the text says, whatever else there is."""
    design = read_design(size)
    check(design)
    seeds = {name: system.seeds for name, system in design.systems.items()}
    assert all(seeds[name] >= 3 for name in ("bert_a", "bert_r", "tupe_a", "tupe_r"))
    assert all(seeds[name] >= 2 for name in ("tupe_a_tie_cls", "bert_ad", "shaw", "t5", "diet_rel", "diet_abs"))
    assert len({run.path for run in design.runs()}) == len(list(design.runs()))


@pytest.mark.parametrize(
    ("before", "after", "sentence"),
    [
        ("tupe_r: {", "tupe_x: {", "compares tupe_x, which `tupe systems` does not list"),
        ("validations: 5", "validations: 101", "has 101 validations of 100 updates: give fewer"),
        ("mid: 20", "mid: 25", "keeps the checkpoint of update 25, but saves every 20"),
        ("tupe_r: {", "tupe_r: {evaluate: [far], ", r"evaluate\[0\] is 'far', not one of linear, ntk"),
        ("updates: 100", "updates: many", "made.yaml is not what a study writes"),
        ("groups:", "groups: [", "is no YAML"),
        ("mid: 20", "baseline: tupe_a", "has the baseline tupe_a, which is no row: it has bert_a, bert_a_scaled, "),
        ("rates: [0.001, 0.002], updates", "rates: [], updates", "has no learning rate: give search.rates"),
        ("tupe_r: {", "tupe_r: {start: {row: bert_a}, ", "starts tupe_r, but its short runs have no lengths"),
        ("tupe_r: {", "tupe_r: {start: {positions: far}, ", "start.positions is 'far'"),
        ("jobs: 2\n", "jobs: 2\nshares: [2]\n", "is 2, not 1 or less"),
        ("tupe_r: {seeds: 1", "tupe_r: {seeds: 100000000", "seeds is 100000000, not 1000 or less"),
        ("updates: 10, seed: 1", "updates: 10, seed: -1", r"search\.seed is -1, not 0 or more"),
        ("lengths: [4, 8]", "lengths: [2]", r"lengths\[0\] is 2, not 3 or more"),
        ("jobs: 2", "jobs: 20000", "jobs is 20000, not 10000 or less"),
        ("mid: 20", "mid: 200", "keeps the checkpoint of update 200 of 100: lower mid"),
        ("rates: [0.001], seeds", "rates: [0], seeds", r"finetuning\.rates\[0\] is 0, not 1e-12 or more"),
        ("rates: [0.001], seeds", "rates: [], seeds", "fine-tunes without rates or seeds"),
        ("lengths: [4, 8]", "masks: 2", "draws masks for the loss by length, and has no lengths"),
        (
            "tupe_r: {",
            "tupe_r: {evaluate: [window], ",
            "has extensions to evaluate, and no masks for the loss by length",
        ),
        ("jobs: 2\n", "jobs: 2\nshares: [0.1]\n", "has shares, the lengths of short runs, and no row with a start"),
        ("tupe_r: {", "bert_a: {", "has a row of one name in several groups"),
        ("tupe_r: {", "../x: {model: tupe_r, ", "has the row '../x', which names files"),
        ("tupe_r: {", "other: {model: bert_a, ", "has two rows that tables call BERT-A: give one of them a label"),
        ("jobs: 2\n", "jobs: 2\njobs: 3\n", "is no YAML: .*found duplicate key"),
        ("updates: 100", "updates: " + 100_000 * "1", "is no YAML: Exceeds the limit"),
    ],
)
def test_what_is_no_study(before, after, sentence, tmp_path):
    path = tmp_path / "made.yaml"
    path.write_text(DESIGN.replace(before, after))
    with pytest.raises(UserError, match=sentence):
        read_design(str(path))
    with pytest.raises(UserError, match=r"there is no study abc: give one of cpu"):
        read_design("abc")


def test_numbers_are_written_as_for_hydra(tmp_path):
    path = tmp_path / "made.yaml"
    path.write_text(DESIGN.replace("[0.001, 0.002]", "[1e-3, 2e-3]"))
    assert read_design(str(path)).search.rates == (0.001, 0.002)


@pytest.mark.parametrize(
    ("before", "after", "sentence"),
    [
        ("config: study", "config: nosuch", r"^there is no \S+nosuch\.yaml: give config a file of configs/pretraining"),
        (
            "model_size: tiny",
            "model_size: giant",
            "^the row bert_a cannot be trained: there is no model 'bert_a_giant'",
        ),
        ("+model.content_terms: 2", "model.dropout: 7", "^the row bert_a_scaled cannot .* model.dropout is 7"),
        ("+model.content_terms: 2", "dropuot: 7", "^the row bert_a_scaled cannot .* has no 'dropuot'"),
        ("dataset.batch_size: 4", "dataset.batch_size: four", "cannot have this batch_size: Value 'four'"),
        ("dataset.batch_size: 4", "common.seed: 4", "have common.seed, which the study sets itself"),
        ("tasks: [CoLA", "tasks: [cola", "finetuning.tasks has cola: choose from MNLI"),
        ("seeds: [1, 2]", "seeds: [1], settings: [nosuch]", "^'nosuch' is no key=value"),
    ],
)
def test_what_cannot_be_trained(before, after, sentence, tmp_path):
    path = tmp_path / "made.yaml"
    path.write_text(DESIGN)
    check(read_design(str(path)))
    path.write_text(DESIGN.replace(before, after))
    with pytest.raises(UserError, match=sentence):
        check(read_design(str(path)))
