"""Tasks of one's own from the file to Transformers' pipelines, as `docs/tasks.md` says."""

import json
import random
import re

import pytest
import seqeval.metrics

from tests.commands import finetune, run, tupe
from tests.data.conftest import prepare_made
from tests.samples import write_checkpoint
from tupe.data.corpus.manifest import Manifest
from tupe.data.corpus.vocabulary import symbols
from tupe.data.glue.own import description
from tupe.safe_load import safe_load

RUN = "class/lr_0.001/seed_1"
NAMES, VERBS, THINGS = ["Anna", "Bob", "Carl"], ["sees", "hears"], ["the house", "a red car"]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A corpus whose texts are not rewritten, and an encoder with its vocabulary that nothing was taught."""
    folder = tmp_path_factory.mktemp("own")
    corpus = prepare_made(folder, 60, "--profile sentencepiece --vocab-size 120 --valid-documents 5")
    pieces = [piece for piece in symbols(Manifest.load(corpus).model)[4:] if piece != "<mask>"]
    write_checkpoint(folder / "pretrained.pt", corpus, symbols=pieces)
    return folder


def texts(number, seed=0):
    draw = random.Random(seed)
    return [(draw.choice(NAMES), draw.choice(VERBS), draw.choice(THINGS)) for _ in range(number)]


#: Kind -> the options of `prepare-task`, the label of a text of three parts, and the metric.
KINDS = {
    "class": ([], lambda name, verb, thing: name, "accuracy"),
    "several": (["--multi-label"], lambda name, verb, thing: [name, *([verb] if verb == "sees" else [])], "micro_f1"),
    "number": (["--regression"], lambda name, verb, thing: 10 + 5 * NAMES.index(name) + VERBS.index(verb), "pearson"),
}


def prepare(data, kind):
    options, label, _ = KINDS[kind]
    files = []
    for seed, (split, number) in enumerate([("train", 96), ("valid", 24), ("test", 10)]):
        files.append(data / f"{kind}.{split}.jsonl")
        rows = [{"text": " ".join(parts), "label": label(*parts)} for parts in texts(number, seed)]
        files[-1].write_text("".join(json.dumps(row) + "\n" for row in rows))
    train, valid, test = files
    out = data / "tasks" / kind
    assert (
        tupe("prepare-task", train, data / "corpus", out, "--valid", valid, "--test", test, "--workers", 1, *options)
        == 0
    )
    return out


@pytest.mark.parametrize("kind", KINDS)
def test_from_a_file_to_a_pipeline(kind, data, capsys):
    from transformers import pipeline

    task, metric = prepare(data, kind), KINDS[kind][2]
    folder = data / "runs" / kind
    weights = [] if kind == "number" else ["criterion.class_weights=balanced"]
    keys = [
        "optimization.lr=[0.01]",
        "optimization.max_epoch=20",
        f"checkpoint.save_dir={folder}",
        "checkpoint.patience=8",
    ]
    done = finetune(kind, data / "pretrained.pt", data / "tasks", *keys, *weights)
    assert done.returncode == 0, done.stderr[-2000:]
    result = json.loads((folder / "result.json").read_text())
    assert (result["task"], result["metric"]) == (kind, metric) and result["score"] > 50
    capsys.readouterr()
    assert tupe("predict", folder / "checkpoint_best.pt", task, data / "predicted" / kind) == 0
    said = capsys.readouterr().out
    assert f"{metric} " in said and "test.tsv" in said
    predicted = [line.split("\t")[1] for line in (data / "predicted" / kind / "test.tsv").read_text().splitlines()[1:]]
    assert tupe("predict", folder / "checkpoint_best.pt", task, data / "never", "--partial") == 1
    assert capsys.readouterr().err == "error: --partial is not for such a task: leave it out.\n"
    out = data / "exported" / kind
    assert tupe("export", folder / "checkpoint_best.pt", task, out, "--corpus", data / "corpus") == 0
    piped = pipeline("text-classification", str(out), trust_remote_code=True)
    rows = [" ".join(parts) for parts in texts(10, 2)]
    if kind == "class":
        assert [found["label"] for found in piped(rows)] == predicted
    elif kind == "several":
        found = [{one["label"] for one in of_row if one["score"] > 0.5} for of_row in piped(rows, top_k=None)]
        assert found == [set(filter(None, text.split(","))) for text in predicted]
    else:
        own = description(task)
        found = [own.offset + own.scale * min(max(one["score"], 0), 1) for one in piped(rows)]
        assert found == pytest.approx([float(text) for text in predicted], abs=1e-3)
        assert f"{own.offset:g} + {own.scale:g} x output" in (out / "README.md").read_text()
    assert tupe("import", out, data / f"{kind}.pt") == 0
    assert tupe("predict", data / f"{kind}.pt", task, data / "again") == 0
    again = [line.split("\t")[1] for line in (data / "again/test.tsv").read_text().splitlines()[1:]]
    assert again == predicted


WORDS = {"Anna": "B-PER", "Bob": "B-PER", "the": "B-THING", "house": "I-THING"}


def sentences(number, seed):
    """Sentences of words and labels, the first of them too long for the model."""
    rows = [" ".join(parts).split() for parts in texts(number, seed)]
    rows[0] = [word for row in rows for word in row][:40]
    return [[(word, WORDS.get(word, "O")) for word in row] for row in rows]


def test_labels_of_words(data, capsys):
    from transformers import pipeline

    files = {}
    for seed, split in enumerate(("train", "valid", "test")):
        files[split] = data / f"words.{split}.conll"
        lines = (
            "".join(f"{word}\t{label}\n" for word, label in row) for row in sentences(60 if seed == 0 else 12, seed)
        )
        files[split].write_text("\n".join(lines))
    out, folder = data / "tasks/words", data / "runs/words"
    options = ["--valid", files["valid"], "--test", files["test"], "--workers", 1]
    assert tupe("prepare-task", files["train"], data / "corpus", out, *options) == 0
    keys = ["optimization.lr=[0.01]", "optimization.max_epoch=15", f"checkpoint.save_dir={folder}"]
    done = finetune("words", data / "pretrained.pt", data / "tasks", *keys, "criterion.class_weights=balanced")
    assert done.returncode == 0, done.stderr[-2000:]
    result = json.loads((folder / "result.json").read_text())
    assert result["metric"] == "f1" and result["score"] > 50
    capsys.readouterr()
    assert tupe("predict", folder / "checkpoint_best.pt", out, data / "labels") == 0
    said = capsys.readouterr().out
    expected = sentences(12, 2)
    parts = (data / "labels/test.conll").read_text().split("\n\n")[:-1]
    predicted = [[tuple(line.split("\t")) for line in part.split("\n")] for part in parts]
    assert [[word for word, _ in row] for row in predicted] == [[word for word, _ in row] for row in expected]
    known, found = ([[label for _, label in row] for row in rows] for rows in (expected, predicted))
    score = seqeval.metrics.f1_score(known, found)
    assert f"f1 {100 * score:.2f}, " in said and score > 0.5

    exported = data / "exported/words"
    assert tupe("export", folder / "checkpoint_best.pt", out, exported, "--corpus", data / "corpus") == 0
    piped = pipeline("token-classification", str(exported), trust_remote_code=True, ignore_labels=[])
    for row in predicted[1:]:  # Transformers' pipeline cuts what is too long
        tokens, begin = piped(" ".join(word for word, _ in row)), 0
        for word, label in row:
            assert next(token for token in tokens if token["end"] >= begin)["entity"] == label
            begin += len(word) + 1
    options = ["--valid", files["test"], "--workers", 1]  # which is what a graph is scored on
    assert tupe("prepare-task", files["train"], data / "corpus", data / "tasks/tested", *options) == 0
    capsys.readouterr()
    assert tupe("export-onnx", exported, "--data", data / "tasks/tested") == 0
    scores = re.findall(r"^(?:pytorch|onnx): (.*)$", capsys.readouterr().out, re.MULTILINE)
    assert scores == [said.partition(", predictions: ")[0]] * 2
    assert tupe("import", exported, data / "words.pt") == 0
    assert tupe("predict", data / "words.pt", out, data / "again") == 0
    assert (data / "again/test.conll").read_text() == (data / "labels/test.conll").read_text()
    assert tupe("predict", data / "pretrained.pt", out, data / "again") == 1
    assert "was not fine-tuned on labels of words" in capsys.readouterr().err


def test_a_sweep_of_ones_own_tasks(data, capsys):
    prepare(data, "class")
    out, keys = data / "sweep", ["optimization.max_epoch=1", "dataset.num_workers=0", "task.frozen_layers=1"]
    command = ["tupe", "sweep", "own", data / "pretrained.pt", data / "tasks", out, "--tasks", "class", "--seeds", "1"]
    said = run(*command, "--lrs", "1e-3", *keys).stdout
    assert "| | class accuracy |" in said
    before, after = (safe_load(path)["model"] for path in (data / "pretrained.pt", out / RUN / "checkpoint_best.pt"))
    frozen = [name for name in before if name.startswith("encoder.sentence_encoder.")]
    assert len(frozen) > 10 and all(before[name].equal(after[name]) for name in frozen)  # the model has one layer
    assert tupe("sweep", "own", data / "pretrained.pt", data / "corpus", data / "other") == 1
    assert "has no task of your own" in capsys.readouterr().err
