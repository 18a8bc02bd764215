"""What fairseq logs becomes curves, whatever stands around the records."""

import json

import pytest

from tupe.analysis import curves
from tupe.analysis.curves import plot_training, read_log
from tupe.errors import UserError


def inner(update, loss):
    return json.dumps({"epoch": 1, "loss": str(loss), "num_updates": str(update), "wall": str(2 * update)})


def valid(update, loss):
    record = {"epoch": 1, "valid_loss": str(loss), "valid_accuracy": "12.5", "valid_num_updates": str(update)}
    return json.dumps({**record, "valid_best_loss": "1"})


def train(update):
    return json.dumps({"epoch": 1, "train_loss": "99", "train_num_updates": str(update), "train_wall": "41"})


HYDRA = "[2026-01-01 00:00:00,000][{}][INFO] - {}"
PRINTED = "2026-01-01 00:00:00 | INFO | {} | {}"
FILE = "{1}"


@pytest.mark.parametrize("form", [HYDRA, PRINTED, FILE])
def test_records_are_read_in_every_form_of_the_log(form, tmp_path):
    log = tmp_path / "train.log"
    lines = [
        form.format("fairseq_cli.train", "begin training {not a record}"),
        form.format("train_inner", inner(10, 9.5)),
        form.format("valid", valid(10, 9)),
        form.format("train", train(10)),
        form.format("train_inner", inner(20, 8.5)),
        form.format("train_inner", inner(20, 8.5)[:40]),  # killed while writing
        form.format("train_inner", inner(10, 9.25)),  # resumed
        form.format("valid", valid(20, 8)),
    ]
    log.write_text("\n".join(lines))
    read = read_log(log)
    assert {update: record["loss"] for update, record in read.train.items()} == {10: 9.25, 20: 8.5}
    assert read.seconds == 41
    assert {update: record["loss"] for update, record in read.valid.items()} == {10: 9, 20: 8}
    assert read.valid[20]["accuracy"] == 12.5


def test_logs_without_records_are_refused(tmp_path):
    with pytest.raises(UserError, match="cannot be read"):
        read_log(tmp_path / "no.log")
    (tmp_path / "simple.log").write_text("train_inner | epoch 001: 10 / 20 loss=9.5\n" + inner(10, 9.5))
    with pytest.raises(UserError, match="log_format=json"):
        read_log(tmp_path / "simple.log")


def test_each_run_is_two_curves_of_one_colour(tmp_path, monkeypatch):
    logs = {}
    for label, loss in (("TUPE-R", 6), ("BERT-A", 7)):
        path = tmp_path / label
        path.write_text("\n".join([inner(20, loss), inner(10, loss + 1), valid(20, loss + 0.5)]))
        logs[label] = read_log(path)
    drawn = []
    monkeypatch.setattr(curves, "save_figure", lambda figure, output: drawn.append(figure))
    plot_training(logs, "unused.png")
    (axes,) = drawn[0].axes
    data = [(line.get_xdata().tolist(), line.get_ydata().tolist(), line.get_color()) for line in axes.get_lines()]
    assert data == [
        ([10, 20], [7, 6], "C0"),
        ([20], [6.5], "C0"),
        ([10, 20], [8, 7], "C1"),
        ([20], [7.5], "C1"),
    ]
    assert "7.500 at the end" in axes.get_legend().get_texts()[3].get_text()
