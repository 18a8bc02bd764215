"""A study of three systems, and records that are made up."""

import dataclasses
from types import SimpleNamespace

import pytest

from tupe.data.corpus.manifest import Manifest
from tupe.experiments.study.design import Run, read_design
from tupe.experiments.study.records import FineTuning, Pretraining
from tupe.files import write

MACHINE = {"processor": "abacus", "cores": 2}, {"torch": "2.0"}
DESIGN = """
config: study
model_size: tiny
corpus: [--vocab-size, "512"]
settings: {dataset.batch_size: 4}
updates: 100
validations: 5
mid: 20
search: {rates: [0.001, 0.002], updates: 10, seed: 1}
groups:
  - bert_a: {seeds: 2}
    bert_a_scaled: {model: bert_a, label: scaled, seeds: 2, settings: {+model.content_terms: 2}}
  - tupe_r: {seeds: 1}
    roberta: {seeds: 1, label: RoBERTa}
lengths: [4, 8]
finetuning: {tasks: [CoLA, STS-B], rates: [0.001], seeds: [1, 2]}
cost: [--sizes, tiny]
jobs: 2
"""


@pytest.fixture
def design(tmp_path):
    path = tmp_path / "made.yaml"
    path.write_text(DESIGN)
    return read_design(str(path))


@pytest.fixture
def prepared(tmp_path, monkeypatch):
    """A folder that passes for a prepared corpus."""
    content = SimpleNamespace(checksums={"dict.txt": "a", "train.bin": "b", "valid.bin": "c"})
    monkeypatch.setattr(Manifest, "load", lambda path: SimpleNamespace(content=content))
    folder = tmp_path / "corpus"
    folder.mkdir()
    return folder


def pretraining(*losses, lr=0.001, of=None):
    """A record with validations after 20, 40, ... updates."""
    curve = tuple((20 * (n + 1), loss) for n, loss in enumerate(losses))
    return Pretraining({**(of or {}), "lr": lr}, *MACHINE, lr, 1_234_567, curve, 30.0, 10.0, 3600.0)


def finetuning(**scores):
    """Of each task the scores of two seeds, of which the median is given, at one rate, and less at another."""
    found = {task.replace("_", "-"): {"0.1": (s - 1, s + 1), "0.2": (s - 3,)} for task, s in scores.items()}
    return FineTuning({}, *MACHINE, found, 0.0)


@pytest.fixture
def leave(design, tmp_path):
    """Writes records: `leave({Run(...): record})`; returns the folder of all studies."""

    def save(records):
        for run, record in records.items():
            write(tmp_path / "records" / design.name / run.path, record)
        return tmp_path / "records"

    return save


@pytest.fixture
def search():
    """The records of a search, whose better rate is the second for everything but RoBERTa."""
    better = {"bert_a": 1, "bert_a_scaled": 1, "tupe_r": 1, "roberta": 0}
    rates = (0.001, 0.002)
    return {
        Run("search", name, 1, lr): pretraining(9.0, 8.0 if number == best else 8.5, lr=lr)
        for name, best in better.items()
        for number, lr in enumerate(rates)
    }


def changed(record, **settings):
    return dataclasses.replace(record, settings={**record.settings, **settings})
