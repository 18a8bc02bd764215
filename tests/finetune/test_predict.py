"""Predictions of made models in the GLUE server's format: order, labels and scores."""

import pytest
import torch

from tests.commands import run
from tests.samples import HEAD, WORDS, dictionary_of, write_dictionary, write_model
from tupe.cli.main import main
from tupe.data.binary import EOS, writer
from tupe.data.glue.tasks import TASKS, Split, Task
from tupe.finetune import predict as predictions
from tupe.patches.checkpoints import labels_sha256

ROWS = 70  # more than two batches


def prepare(folder, name, labels, splits=("test",)):
    """A prepared task whose test sentences have one to nine words."""
    task, texts = TASKS[name], folder / "text"
    texts.mkdir(parents=True)
    for side in range(len(task.texts)):
        data = folder / name / f"input{side}"
        write_dictionary(data / "dict.txt")
        rows = [[(row * (side + 3) + i) % 20 for i in range(1 + row % 9)] for row in range(ROWS)]
        for number, split in enumerate(splits):
            (texts / f"{split}.{side}").write_text("".join(" ".join(map(WORDS.__getitem__, r)) + "\n" for r in rows))
            with writer(data / f"test{number or ''}", 4 + len(WORDS)) as add:
                for row in rows:
                    add([*(4 + word for word in row), EOS])
    if labels:
        write_dictionary(folder / name / "label/dict.txt", labels)
    return folder / name


def fine_tune(path, data, num_classes, **fields):
    """A checkpoint as fine-tuning leaves it, of a model that nothing was taught, and its dictionary."""
    of_task = {"regression_target": num_classes == 1, "label_scale": fields.pop("label_scale", None)}
    if num_classes > 1:
        of_task["labels_sha256"] = labels_sha256(data)
    # as initialized, it would say nearly the same of every sentence
    return write_model(path, data, num_classes, std=0.3, of_task=of_task, **fields), dictionary_of(*WORDS)


def scores(model, dictionary, folder, task, split="test"):
    """Of each row by itself, from the text; too long, it loses words one by one from the longer text."""
    sides = [(folder / "text" / f"{split}.{side}").read_text().splitlines() for side in range(len(TASKS[task].texts))]
    for texts in zip(*sides):
        parts = [text.split() for text in texts]
        while sum(len(words) + 2 for words in parts) > model.max_positions():
            max(reversed(parts), key=len).pop()
        joined = [0]
        for number, words in enumerate(parts):
            joined += [2] * (number > 0 and model.args.pair_separators == 2)
            joined += [*map(dictionary.index, words), 2]
        tokens = torch.tensor([joined])
        with torch.no_grad():
            yield model(tokens, features_only=True, classification_head_name=HEAD)[0][0]


def read(path, rows=ROWS):
    header, *lines = path.read_text().splitlines()
    assert header == "index\tprediction"
    numbers, values = zip(*(line.split("\t") for line in lines))
    assert list(numbers) == [str(number) for number in range(rows)]
    return list(values)


@pytest.mark.parametrize("separators", [2, 1])
@pytest.mark.parametrize("labels", [("not_entailment", "entailment"), ("entailment", "not_entailment")])
def test_labels_of_each_row_in_order(labels, separators, tmp_path):
    data = prepare(tmp_path, "RTE", labels)
    model, dictionary = fine_tune(tmp_path / "best.pt", data, 2, pair_separators=separators)
    run("tupe", "predict", tmp_path / "best.pt", data, tmp_path / "out")
    predicted = read(tmp_path / "out/RTE.tsv")
    assert predicted == [labels[int(score.argmax())] for score in scores(model, dictionary, tmp_path, "RTE")]
    assert len(set(predicted)) == 2


@pytest.mark.parametrize(("max_positions", "scale"), [(32, None), (8, 100.0)])  # the longest pair has 22 tokens
def test_scores_are_scaled_back(max_positions, scale, tmp_path):
    """By the scale of the training, whatever the data say since."""
    data = prepare(tmp_path, "STS-B", ())
    model, dictionary = fine_tune(tmp_path / "best.pt", data, 1, label_scale=scale, max_positions=max_positions)
    predictions.predict(tmp_path / "best.pt", data, tmp_path)
    predicted, scale = [float(value) for value in read(tmp_path / "STS-B.tsv")], scale or 5
    expected = [scale * min(max(float(score), 0), 1) for score in scores(model, dictionary, tmp_path, "STS-B")]
    assert predicted == pytest.approx(expected, rel=1e-5, abs=1e-5)
    assert set(predicted) - {0.0, scale}


def test_mnli_has_two_files_and_predicts_ax(tmp_path):
    labels = TASKS["MNLI"].classes
    data = prepare(tmp_path / "mnli", "MNLI", labels, ("test", "test1"))
    model, dictionary = fine_tune(tmp_path / "best.pt", data, 3)
    files = predictions.predict(tmp_path / "best.pt", data, tmp_path)
    assert [file.name for file in files] == ["MNLI-m.tsv", "MNLI-mm.tsv"]
    for file, split in zip(files, ("test", "test1")):
        expected = scores(model, dictionary, tmp_path / "mnli", "MNLI", split)
        assert read(file) == [labels[int(score.argmax())] for score in expected]
    (file,) = predictions.predict(tmp_path / "best.pt", prepare(tmp_path / "ax", "AX", labels), tmp_path)
    assert file.name == "AX.tsv"
    assert set(read(file)) <= set(labels)


def test_every_test_set_of_a_users_task_has_a_file(tmp_path):
    splits = [Split(name, ()) for name in ("train", "valid", "valid-de", "test", "test1", "test-de")]
    row = Task("reviews", tuple(splits), ("text",))
    assert [predictions._name(row, split) for split in splits[3:]] == ["reviews", "reviews-test1", "test-de"]
    (tmp_path / "input0").mkdir()
    for prepared, found in (("train", []), ("valid", ["valid"]), ("test", ["test"]), ("test-de", ["test", "test-de"])):
        (tmp_path / f"input0/{prepared}.bin").touch()
        assert [split.name for split in predictions._test_sets(row, tmp_path)] == found


def test_the_data_of_another_task_are_refused(tmp_path, capsys):
    data = prepare(tmp_path, "RTE", ("not_entailment", "entailment"))
    fine_tune(tmp_path / "best.pt", data, 2)
    folder = data.rename(tmp_path / "QNLI")
    assert main(["predict", str(tmp_path / "best.pt"), str(folder), str(tmp_path / "out")]) == 1
    assert "another task than the data's (RTE/train.tsv, not QNLI/train.tsv)" in capsys.readouterr().err
