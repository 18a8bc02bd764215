"""What is run, in which order, by which commands; and the driver, with runs that are a few lines of Python."""

import json
import os
import signal
import sys
import threading
import time

import pytest

from lab import study
from lab.design import Run, read_design
from lab.records import read_records, write_record
from lab.study import Study
from tests.commands import ROOT
from tupe.util import UserError

DESIGN = """
settings: {dataset.batch_size: 4}
updates: 100
validations: 5
mid: 20
search: {rates: [0.001, 0.002], updates: 10}
shares: [0.1]
groups:
  - bert_a: {seeds: 2}
    scaled: {model: bert_a, label: scaled, seeds: 1, lr: 0.1, settings: {+model.content_terms: 2}}
  - roberta: {seeds: 1, lr: 0.1}
    started: {model: tupe_a, seeds: 1, lr: 0.1, start: {row: bert_a}, settings: {+model.sharing: none}}
finetuning: {tasks: [CoLA], rates: [0.001], seeds: [1]}
cost: [--sizes, tiny]
"""

SLEEP = "import pathlib, sys, time; pathlib.Path(sys.argv[1], 'started').touch(); time.sleep(600)"


@pytest.fixture
def design(tmp_path):
    (tmp_path / "made.yaml").write_text(DESIGN)
    return read_design(str(tmp_path / "made.yaml"))


@pytest.fixture
def make(design, tmp_path, monkeypatch):
    """`make(ends={"final/bert_a.seed_1": "ValueError"}, **options)`; `make.began` lists the runs.

    A run logs as fairseq does, and the loss is least at rate 0.002. `ends` are the last lines of runs that fail.
    """
    (tmp_path / "out/made/corpus").mkdir(parents=True)
    checksums = dict.fromkeys(("dict.txt", "train.bin", "valid.bin"), "a")
    (tmp_path / "out/made/corpus/manifest.json").write_text(json.dumps({"checksums": checksums}))

    def make(ends=None, **options):
        def run(here, command, log, held):
            run, folder = command
            make.began.append(str(run))
            log.write_text("num. shared model params: 1,234 (num. trained")
            (folder / "hydra_train.log").touch()
            if run.part == "start":
                (folder / "start.pt").touch()
                return 0, 2.5, "CPU time: 2.50 s"
            if str(run) in (ends or {}):
                return 1, 1.0, ends[str(run)]
            done, lr = study.updates(design, run), here.lr(run)
            train = {"epoch": 1, "loss": 9, "num_updates": done, "wps": 100, "wpb": 200}
            valid = {"epoch": 1, "valid_loss": 8 + abs(lr - 0.002), "valid_num_updates": done}
            (folder / "hydra_train.log").write_text(f"{json.dumps(train)}\n{json.dumps(valid)}\n")
            for name in ("last", "1_20"):
                (folder / f"checkpoint_{name}.pt").touch()
            return 0, 1.0, ""

        monkeypatch.setattr(study, "measure", lambda *_: {})
        monkeypatch.setattr(Study, "command", lambda here, run, folder: (run, folder))
        monkeypatch.setattr(Study, "_run", run)
        return Study(design, tmp_path / "records", tmp_path / "out", **{"parts": ("search", "final"), **options})

    make.began = []
    return make


def test_the_order(design):
    """A group's search, then its first seed, then its second; what needs checkpoints comes after."""
    assert [str(run) for run in design.runs()] == [
        "search/bert_a.lr_0.001", "search/bert_a.lr_0.002",
        "final/bert_a.seed_1", "final/scaled.seed_1", "final/bert_a.seed_2",
        "final/roberta.seed_1", "start/started.seed_1", "short/started.seed_1.0", "short/started.seed_1.10",
        "glue/bert_a.seed_1.end", "glue/scaled.seed_1.end", "glue/bert_a.seed_2.end",
        "glue/bert_a.seed_1.mid", "glue/scaled.seed_1.mid", "glue/bert_a.seed_2.mid", "cost/all.seed_1",
    ]  # fmt: skip
    assert [design.label(name) for name in design.systems] == ["BERT-A", "scaled", "roberta", "started"]


@pytest.mark.parametrize("path", ROOT.glob("configs/study/*.yaml"), ids=lambda path: path.stem)
def test_those_of_the_repository(path):
    design = read_design(path.stem)
    runs = list(design.runs())
    assert len({run.path for run in runs}) == len(runs)
    for run in runs:
        if run.part == "final":
            assert study.overrides(design, run, 0.1)["model._name"]


def test_all_of_it_and_nothing_twice(make, design, tmp_path):
    done = make(systems=["bert_a"])
    done.do(jobs=2)
    assert sorted(make.began[:2]) == ["search/bert_a.lr_0.001", "search/bert_a.lr_0.002"]
    final = read_records(tmp_path / "records/made", design)[Run("final", "bert_a", 2)]
    assert (final.lr, final.loss, final.parameters, final.curve) == (0.002, 8, 1234, [[100, 8.0]])
    assert final.settings["pretraining"]["common"] == {"seed": 2}
    assert "/" not in json.dumps({**final.settings, "run": ""})  # no paths of the machine
    assert not done.folder(Run("search", "bert_a", 1, 0.001)).exists()  # nothing of it is needed
    make(systems=["bert_a"]).do(jobs=2)
    assert len(make.began) == 4
    final.settings["updates"] = 9
    write_record(tmp_path / "records/made", Run("final", "bert_a", 2), final)
    os.rename(tmp_path / "records/made/search", tmp_path / "moved")  # so the rate is known only later
    with pytest.raises(UserError, match=r"bert_a\.seed_2\.json has other settings"):
        make(systems=["bert_a"]).do(jobs=2)


def test_one_that_fails_and_one_that_diverges(make, capsys):
    """The others go on, what needs a failed run waits, and a run that diverged is the worst of its rates."""
    searches = [f"search/bert_a.lr_{lr}" for lr in (0.001, 0.002)]
    here = make(ends={searches[0]: "ValueError: it cannot be"}, systems=["bert_a", "scaled"])
    here.do(jobs=2)
    assert f"failed: {searches[0]}: ValueError: it cannot be" in capsys.readouterr().err
    assert "final/scaled.seed_1" in make.began and "final/bert_a.seed_1" not in make.began
    again = make(ends={searches[0]: "error: the loss or a gradient is NaN or infinite"}, systems=["bert_a"])
    again.do(jobs=2)
    assert again.done[Run("search", "bert_a", 1, 0.001)].loss == float("inf")
    assert again.done[Run("final", "bert_a", 1)].lr == 0.002


def test_stopped_it_goes_on(make, monkeypatch):
    """A signal ends the processes; what they had done is not taken for a result."""
    here = make(parts=["search"])
    monkeypatch.undo()
    monkeypatch.setattr(Study, "command", lambda here, run, folder: [sys.executable, "-c", SLEEP, str(folder)])
    started = [here.folder(run) / "started" for run in here.wanted]

    def stop():
        while not all(path.exists() for path in started):
            time.sleep(0.1)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=stop, daemon=True).start()
    with pytest.raises(KeyboardInterrupt):
        here.do(jobs=2)
    assert not here.done and not here.failed
    assert not here._processes
    again = make(parts=["search"])
    again.do(jobs=2)
    assert len(again.done) == 2


def test_a_warm_start_and_a_checkpoint_elsewhere(make):
    """The conversion waits for the checkpoint; a run whose start lies elsewhere is missing, with the reason."""
    options = {"parts": ["search", "final", "start", "short"], "systems": ["bert_a", "started"]}
    here = make(**options)
    here.do(jobs=1)
    source, start, longest = Run("final", "bert_a", 1), Run("start", "started", 1), Run("short", "started", 1, at="10")
    assert here.done[start].seconds == 2.5 and here.done[longest].curve == [(10, 8.098)]
    assert here.done[longest].settings["start"]["fields"] == ["sharing=none"]
    assert here.done[longest].settings["of"] == here.done[source].settings
    record = here.records / longest.path
    record.unlink()
    mark = here.folder(start) / "ended"
    mark.unlink()  # as in the folder of a run that was stopped, whose record is from elsewhere
    assert not here.initial(longest)
    mark.touch()
    (here.folder(start) / "start.pt").unlink()
    waiting = make(**options)
    waiting.do(jobs=1)
    assert "is not in" in waiting.why_not_now(longest) and not record.exists()
    (here.records / start.path).unlink()
    make(**options).do(jobs=1)
    assert record.exists()
