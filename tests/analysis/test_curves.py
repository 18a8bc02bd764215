"""What fairseq logs becomes curves, whatever stands around the records."""

import json

import pytest

from tupe.analysis import curves
from tupe.analysis.curves import TrainingLog, plot_training, reaches, read_log
from tupe.analysis.figure import colour
from tupe.util import UserError


def inner(update, loss, tokens_a_second=100):
    record = {"epoch": 1, "loss": loss, "wps": tokens_a_second, "wpb": 360, "num_updates": update, "lr": update / 1e3}
    return json.dumps({name: value if name == "epoch" else str(value) for name, value in record.items()})


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
    log = tmp_path / "hydra_train.log"
    lines = [
        form.format("fairseq_cli.train", "begin training {not a record}"),
        form.format("train_inner", inner(10, 9.5, 360)),  # a second an update
        form.format("valid", valid(10, 9)),
        form.format("train", train(10)),
        form.format("train_inner", inner(20, 8.5, 360)),
        # killed while writing, and resumed, slower
        form.format("train_inner", inner(20, 8.5)[:40]) + form.format("train_inner", inner(10, 9.25)),
        form.format("valid", valid(20, 8)),
    ]
    log.write_text("\n".join(lines))
    read = read_log(log)
    assert {update: record["loss"] for update, record in read.train.items()} == {10: 9.25, 20: 8.5}
    assert {update: record["loss"] for update, record in read.valid.items()} == {10: 9, 20: 8}
    assert read.valid[20]["accuracy"] == 12.5
    assert read.seconds == pytest.approx(10 * 3.6 + 10)
    assert read.repeated_seconds == pytest.approx(10)  # of the first start's ten updates
    assert read_log(tmp_path) == read


def test_hours_are_those_of_training(tmp_path):
    """The first update of a process has no speed, and a validation may lie between two records."""
    log = tmp_path / "train.log"
    log.write_text("\n".join([inner(1, 9, 0), inner(11, 9, 1), valid(16, 8), inner(21, 7, 2), valid(30, 6)]))
    read = read_log(log)
    assert {update: record["hours"] for update, record in read.train.items()} == {1: 0, 11: 1, 21: 1.5}
    assert {update: record["hours"] for update, record in read.valid.items()} == {16: 1.25, 30: 1.5}


def test_logs_without_records_are_refused(tmp_path):
    (tmp_path / "number.log").write_text('{"loss": 9.5}\n{"valid_loss": 9.5}\n')
    with pytest.raises(UserError, match=r"number.log has no records of training"):
        read_log(tmp_path / "number.log")
    (tmp_path / "other.log").write_text("train_inner | epoch 001: 10 / 20 loss=9.5\n" + inner(10, 9.5)[:-9])
    with pytest.raises(UserError, match=r"other.log has no records of training.* Train with common.log_format=json"):
        read_log(tmp_path / "other.log")


def test_loss_and_learning_rate_against_updates_and_hours(tmp_path, monkeypatch):
    logs = {}
    for label, loss in (("TUPE-R", 6), ("BERT-A", 7)):
        path = tmp_path / label
        path.write_text("\n".join([inner(20, loss, 1), inner(10, loss + 1, 2), valid(20, loss + 0.5)]))
        logs[label] = read_log(path)
    (tmp_path / "begun").write_text(inner(10, 8))
    logs["begun"] = read_log(tmp_path / "begun")
    drawn = []
    monkeypatch.setattr(curves, "save_figure", lambda figure, output, title: drawn.append(figure))
    plot_training(logs, "unused.png")
    data = [
        [(line.get_xdata().tolist(), line.get_ydata().tolist(), line.get_color()) for line in axes.get_lines()[:4]]
        for axes in drawn[0].axes
    ]
    for axes, x in zip(data[:2], ([10, 20], [30, 90])):  # updates, minutes
        assert axes == [
            (x, [7, 6], colour(0)),
            (x[1:], [6.5], colour(0)),
            (x, [8, 7], colour(1)),
            (x[1:], [7.5], colour(1)),
        ]
    for axes, x in zip(data[2:], ([10, 20], [30, 90])):
        assert axes[:2] == [(x, [0.01, 0.02], colour(0)), (x, [0.01, 0.02], colour(1))]
    (legend,) = drawn[0].legends
    assert [text.get_text() for text in legend.get_texts()] == [
        "TUPE-R: 6.500 bits after 20 updates",
        "BERT-A: 7.500 bits after 20 updates",
        "begun: not yet validated",
    ]


def with_losses(**losses):
    train = {100: {"loss": 9.0, "lr": 0.1, "num_updates": 100, "hours": 1.0}}
    return TrainingLog(
        train, {int(u[1:]): {"loss": loss, "num_updates": int(u[1:]), "hours": 1.0} for u, loss in losses.items()}
    )


def test_where_a_run_reaches_the_end_of_another():
    fast = with_losses(u10=9.0, u20=7.0, u30=5.0)
    assert reaches(fast, 9.5) == 10
    assert reaches(fast, 6.0) == 25
    assert reaches(fast, 4.9) is None
    assert reaches(with_losses(), 5.0) is None


def test_of_two_networks_the_generators_loss_is_compared():
    log = with_losses(u10=30.0, u20=20.0)
    for update, loss in ((10, 9.0), (20, 7.0)):
        log.valid[update]["gen_loss"] = loss
    assert reaches(log, 8.0) == 15
    log.valid[20]["gen_loss"] = float("nan")
    assert reaches(log, 8.0) is None


def test_the_share_stands_in_the_legend(tmp_path):
    logs = {"TUPE": with_losses(u10=9.0, u20=7.0, u30=5.0), "BERT": with_losses(u50=6.0), "slow": with_losses(u50=8.0)}
    plot_training(logs, tmp_path / "a.svg", against="BERT")
    text = (tmp_path / "a.svg").read_text()
    assert "BERT's end after 50% of its updates" in text
    assert "BERT's end not reached" in text


def test_of_two_networks_both_are_drawn(tmp_path, monkeypatch):
    """Beside a masked language model: the generator's loss, and how well the discriminator tells tokens apart."""
    figures = []
    monkeypatch.setattr(curves, "save_figure", lambda figure, output, title: figures.append(figure))
    train = {1: {"num_updates": 1, "hours": 0.1, "loss": 30.0, "gen_loss": 9.0, "disc_auc": 50.0, "lr": 0.1}}
    valid = {1: {"num_updates": 1, "hours": 0.1, "loss": 20.0, "gen_loss": 8.0, "disc_auc": 61.0}}
    plain = TrainingLog(*({1: {"num_updates": 1, "hours": 0.1, "loss": 7.0, "lr": 0.1}} for _ in range(2)))
    plot_training({"a": TrainingLog(train, valid), "b": plain}, tmp_path / "out.png")
    drawn = [[list(line.get_ydata()) for line in ax.lines] for ax in figures[0].axes]
    assert drawn[0] == [[9.0], [8.0], [7.0], [7.0]]
    assert drawn[2] == [[50.0], [61.0], [], []]
    assert drawn[4] == [[0.1], [0.1]]
    assert "8.000 bits, AUC 61.0 after 1 updates" in figures[0].axes[0].lines[1].get_label()
