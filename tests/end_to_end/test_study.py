"""Whole studies in small: corpus, search, final runs of our baseline and of fairseq's, warm starts, and tables."""

import numpy as np

from tests.commands import REAL, run
from tests.data.conftest import as_text, made_documents
from tupe.experiments.study.design import Run
from tupe.experiments.study.document import read_results, render
from tupe.experiments.study.tables import BLOCKS

#: As the size `gpu`, but for the CPU: bfloat16, and a worker that loads.
DESIGN = """
corpus: [--vocab-size, "150", --valid-documents, "10", --max-tokens, "30", --workers, "1"]
settings: {dataset.batch_size: 8, dataset.num_workers: 1, common.bf16: true}
updates: 10
validations: 5
mid: 4
search: {rates: [0.001, 0.002], updates: 4, seed: 1}
groups:
  - bert_a: {seeds: 1, settings: {+model.content_terms: 2}, evaluate: [window]}
    roberta: {seeds: 1, lr: 0.001, label: RoBERTa, settings: {+model.max_positions: 32}}
lengths: [16, 40]
masks: 2
finetuning: {tasks: [CoLA], rates: [0.001], seeds: [1]}
jobs: 2
"""


def test_a_study(tmp_path):
    text, design = tmp_path / "text.txt", tmp_path / "small.yaml"
    text.write_text(as_text(made_documents(0, 120)))
    design.write_text(DESIGN)
    options = ["--size", design, "--out", tmp_path / "out", "--records", tmp_path / "records"]
    # of forks the system would count no processor time
    for part, path in (("search", {}), ("final", {"PATH": REAL})):
        done = run("bash", "scripts/study.sh", text, *options, "--parts", part, **path)
        assert done.stdout.endswith(f"study: 2 of 2 runs have a record in {tmp_path}/records/small\n")

    results = read_results(str(design), tmp_path / "records")
    ours, theirs = (results.finals(name)[1] for name in ("bert_a", "roberta"))
    assert [update for update, _ in ours.curve] == [update for update, _ in theirs.curve] == [2, 4, 6, 8, 10]
    assert 5 < ours.loss < 8 and 5 < theirs.loss < 8  # of 150 symbols
    assert ours.processor_seconds > 1 and ours.training_seconds > 0
    assert theirs.parameters - ours.parameters == 2 * 128  # fairseq's positions begin after those of its padding
    assert list(ours.loss_by_position) == ["16"]  # an absolute table of 32 has no 40
    assert len(ours.loss_by_position["16"]) == 16 and 5 < np.mean([*filter(None, ours.loss_by_position["16"])]) < 8
    assert {name: list(of) for name, of in ours.loss_by_length.items()} == {
        "none": ["16", "32"],
        "window": ["16", "32"],
    }
    assert ours.loss_by_length["none"]["32"].half_interval == 0 < ours.loss_by_length["window"]["32"].half_interval
    assert not ours.heads and not theirs.loss_by_position  # positions added to the words; a model of fairseq's
    assert "| RoBERTa |" in "\n".join(BLOCKS["pretraining"](results))
    assert list((tmp_path / "out/small/final/bert_a.seed_1").glob("checkpoint_*_4.pt"))  # to be fine-tuned too

    again = run("bash", "scripts/study.sh", *options, "--parts", "search", "final")
    # nothing is done twice
    assert again.stdout == f"study: 4 of 4 runs have a record in {tmp_path}/records/small\n"


STARTS = """
corpus: [--vocab-size, "150", --valid-documents, "10", --max-tokens, "30", --workers, "1"]
settings: {dataset.batch_size: 8}
updates: 10
validations: 5
mid: 4
search: {rates: [0.001], updates: 4, seed: 1}
shares: [0.4]
groups:
  - bert_a: {seeds: 1, lr: 0.001}
    tupe_a_start: {model: tupe_a, label: started, seeds: 1, start: {row: bert_a}, settings: {+model.sharing: none}}
    tupe_a_scratch: {model: tupe_a, label: scratch, seeds: 1, lr: 0.001, start: {}}
lengths: [16]
jobs: 2
"""


def test_warm_starts(tmp_path):
    """A trained model made into another system, and that trained for a share of the updates: each is a run."""
    text, design = tmp_path / "text.txt", tmp_path / "starts.yaml"
    text.write_text(as_text(made_documents(0, 400)))
    design.write_text(STARTS)
    options = ["--size", design, "--out", tmp_path / "out", "--records", tmp_path / "records"]
    done = run("tupe", "study", text, *options)
    assert done.stdout.endswith(f"study: 6 of 6 runs have a record in {tmp_path}/records/starts\n")

    results = read_results(str(design), tmp_path / "records")
    old = results.finals("bert_a")[1].loss
    (started,), (scratch,) = (results.shorts(name, 0).values() for name in ("tupe_a_start", "tupe_a_scratch"))
    assert abs(started.loss - old) < 0.05 < scratch.loss - old  # of 10 updates, which learnt frequencies at most
    (longest,) = results.shorts("tupe_a_start", 4).values()
    assert longest.curve[-1][0] == 4 and longest.loss != started.loss
    assert longest.settings["pretraining"]["model"]["sharing"] == "none"
    assert results.records[Run("start", "tupe_a_start", 1)].seconds > 0
    assert Run("start", "tupe_a_scratch", 1) not in results.records
    document = tmp_path / "page.md"
    document.write_text("<!-- study starts starts -->\n<!-- end -->\n<!-- study starts started -->\n<!-- end -->\n")
    assert [path.suffix for path in render(document, tmp_path / "records", str(design))] == [".md", ".png"]
    assert "| started | 1 |" in document.read_text() and "| scratch | 1 | – |" in document.read_text()
