"""A task of one's own, a row of a YAML file: prepared, fine-tuned, swept, predicted, exported (docs/finetuning.md)."""

import importlib
import json
import random

import pytest

from tests.commands import finetune, run, tupe
from tests.data.conftest import prepare_untaught
from tupe.patches.safe_load import safe_load

NAMES, VERBS, THINGS = ["Anna", "Bob", "Carl"], ["sees", "hears"], ["the house", "a red car"]
TASKS = """
who:
  train: who/train.tsv
  valid: who/dev.tsv
  test: who/test.tsv
  texts: [text]
  label: name
  classes: [Anna, Bob, Carl]
how-much:
  train: how-much/train.tsv
  valid: how-much/dev.tsv
  test: how-much/test.tsv
  texts: [first, second]
  scale: 4
"""


def write_tables(folder):
    """Texts labelled by their first word, without the labels of test texts; and pairs with a number from 0 to 4."""
    for seed, (split, number) in enumerate([("train", 96), ("dev", 24), ("test", 10)]):
        draw = random.Random(seed)
        rows = [(draw.choice(NAMES), draw.choice(VERBS), draw.choice(THINGS)) for _ in range(number)]
        who = [f"{' '.join(parts)}\t{parts[0]}" for parts in rows]
        pairs = [f"{' '.join(parts)}\t{parts[2]}\t{2 * NAMES.index(parts[0])}" for parts in rows]
        for name, head, lines in (("who", "text\tname", who), ("how-much", "first\tsecond\tlabel", pairs)):
            (folder / name).mkdir(parents=True, exist_ok=True)
            table = [head, *lines]
            if (name, split) == ("who", "test"):
                table = [line.rpartition("\t")[0] for line in table]
            (folder / name / f"{split}.tsv").write_text("\n".join(table) + "\n")
    return [" ".join(parts) for parts in rows]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A corpus whose texts are not rewritten, an encoder with its vocabulary that nothing was taught, and two tasks."""
    folder = tmp_path_factory.mktemp("own")
    corpus = prepare_untaught(folder)
    (folder / "texts.json").write_text(json.dumps(write_tables(folder / "files")))
    (folder / "mine.yaml").write_text(TASKS)
    command = ["prepare-glue", folder / "files", corpus, folder / "tasks", "--tasks", folder / "mine.yaml"]
    assert tupe(*command, "--workers", 1) == 0
    return folder


@pytest.mark.parametrize(("task", "metric"), [("who", "accuracy"), ("how-much", "pearson")])
def test_from_a_row_to_a_pipeline(task, metric, data, capsys):
    importlib.import_module("tupe.hf")  # registers the classes
    from transformers import pipeline

    folder = data / "runs" / task
    keys = ["optimization.lr=[0.01]", "optimization.max_epoch=20", "checkpoint.patience=8"]
    done = finetune(task, data / "pretrained.pt", data / "tasks", *keys, f"checkpoint.save_dir={folder}")
    assert done.returncode == 0, done.stderr[-2000:]
    result = json.loads((folder / "result.json").read_text())
    assert (result["task"], result["metric"]) == (task, metric) and result["score"] > 50

    capsys.readouterr()
    assert tupe("predict", folder / "checkpoint_best.pt", data / "tasks" / task, data / "predicted") == 0
    said = capsys.readouterr().out
    assert (f"{metric} " in said) == (task == "how-much")  # the test texts of the other have no labels
    predicted = [line.split("\t")[1] for line in (data / f"predicted/{task}.tsv").read_text().splitlines()[1:]]
    texts = json.loads((data / "texts.json").read_text())
    assert len(predicted) == len(texts) and len(set(predicted)) > 1
    if task == "how-much":
        assert all(0 <= float(number) <= 4 for number in predicted)
        assert (
            tupe("predict", folder / "checkpoint_best.pt", data / "tasks/who", data / "no") == 1
        )  # a number per class
        return
    out = data / "exported"
    assert tupe("export", folder / "checkpoint_best.pt", data / "tasks/who", out, "--corpus", data / "corpus") == 0
    classify = pipeline("text-classification", str(out), trust_remote_code=True)
    assert [found["label"] for found in classify(texts)] == predicted


def test_a_sweep(data):
    command = ["tupe", "sweep", "own", data / "pretrained.pt", data / "tasks", data / "sweep", "--tasks", "who"]
    keys = ["optimization.max_epoch=1", "dataset.num_workers=0", "+task.frozen_layers=1"]
    said = run(*command, "--seeds", "1", "--lrs", "1e-3", *keys).stdout
    assert "| | who accuracy |" in said
    run_ = data / "sweep/who/lr_0.001/seed_1"
    before, after = (safe_load(path)["model"] for path in (data / "pretrained.pt", run_ / "checkpoint_best.pt"))
    frozen = [name for name in before if name.startswith("encoder.sentence_encoder.")]
    assert len(frozen) > 10 and all(before[name].equal(after[name]) for name in frozen)  # the model has one layer
