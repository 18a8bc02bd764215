"""A study by its script: search, pre-trainings, a warm start with short runs, tables; and nothing twice."""

import numpy as np

from lab.design import Run
from lab.report import read_results, render
from lab.tables import BLOCKS
from tests.commands import REAL, run
from tests.data.conftest import as_text, made_documents

#: As the size `gpu`, but for the CPU: bfloat16, and a worker that loads.
DESIGN = """
corpus: [--vocab-size, "150", --valid-documents, "10", --max-tokens, "30", --workers, "1"]
settings: {dataset.batch_size: 8, dataset.num_workers: 1, common.bf16: true}
updates: 10
validations: 5
mid: 4
search: {rates: [0.001, 0.002], updates: 4, seed: 1}
shares: [0.4]
groups:
  - bert_a: {seeds: 1, evaluate: [window]}
    roberta: {seeds: 1, lr: 0.001, label: RoBERTa, settings: {+model.max_positions: 32}}
    started: {model: tupe_a, label: started, seeds: 1, lr: 0.01, start: {row: bert_a}, settings: {+model.sharing: none}}
    scratch: {model: tupe_a, label: scratch, seeds: 1, lr: 0.001, start: {}}
lengths: [16, 40]
masks: 2
jobs: 2
"""


def test_a_study(tmp_path):
    text, design = tmp_path / "text.txt", tmp_path / "small.yaml"
    text.write_text(as_text(made_documents(0, 400)))
    design.write_text(DESIGN)
    options = ["--size", design, "--out", tmp_path / "out", "--records", tmp_path / "records"]
    # of forks the system would count no processor time
    done = run("bash", "scripts/study.sh", text, *options, "--systems", "bert_a", "roberta", PATH=REAL)
    assert done.stdout.endswith(f"study: 4 of 4 runs have a record in {tmp_path}/records/small\n"), done.stderr
    done = run("bash", "scripts/study.sh", *options)
    assert done.stdout.endswith(f"study: 9 of 9 runs have a record in {tmp_path}/records/small\n"), done.stderr
    again = run("bash", "scripts/study.sh", *options)
    assert again.stdout == f"study: 9 of 9 runs have a record in {tmp_path}/records/small\n"  # nothing is done twice

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
    half_intervals = [ours.loss_by_length[name]["32"]["half_interval"] for name in ("none", "window")]
    assert half_intervals[0] == 0 < half_intervals[1]
    assert not ours.heads and not theirs.loss_by_position  # positions added to the words; a model of fairseq's
    assert "| RoBERTa |" in "\n".join(BLOCKS["pretraining"](results))
    assert list((tmp_path / "out/small/final/bert_a.seed_1").glob("checkpoint_*_4.pt"))  # to be fine-tuned too

    (started,), (scratch,) = (results.shorts(name, 0).values() for name in ("started", "scratch"))
    assert abs(started.loss - ours.loss) < 0.05 < scratch.loss - ours.loss
    (longest,) = results.shorts("started", 4).values()
    assert longest.curve[-1][0] == 4 and longest.loss != started.loss
    assert longest.settings["pretraining"]["model"]["sharing"] == "none"
    assert results.records[Run("start", "started", 1)].seconds > 0
    document = tmp_path / "page.md"
    document.write_text("<!-- study small starts -->\n<!-- end -->\n<!-- study small started -->\n<!-- end -->\n")
    assert [path.suffix for path in render(document, tmp_path / "records", str(design))] == [".md", ".png"]
    assert "| started | 1 |" in document.read_text() and "| scratch | 1 | – |" in document.read_text()
