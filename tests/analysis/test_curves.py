"""What fairseq logs becomes curves, whatever stands around the records."""

import json

import pytest

from tupe.analysis.curves import TrainingLog, plot_training, reaches, read_log


def inner(update, loss, tokens_a_second=100):
    record = {"loss": loss, "wps": tokens_a_second, "wpb": 360, "num_updates": update, "lr": update / 1e3}
    return json.dumps({"epoch": 1, **{name: str(value) for name, value in record.items()}})


def valid(update, loss):
    return json.dumps({"epoch": 1, "valid_loss": f"{loss}", "valid_accuracy": "12.5", "valid_num_updates": f"{update}"})


FORMS = "[2026-01-01 00:00:00,000][{}][INFO] - {}", "2026-01-01 00:00:00 | INFO | {} | {}", "{1}"


@pytest.mark.parametrize("form", FORMS, ids=["hydra", "printed", "file"])
def test_records_are_read_in_every_form_of_the_log(form, tmp_path):
    log = tmp_path / "hydra_train.log"
    lines = [
        form.format("fairseq_cli.train", "begin training {not a record}"),
        form.format("train_inner", inner(10, 9.5, 360)),  # a second an update
        form.format("valid", valid(10, 9)),
        form.format("train", '{"epoch": 1, "train_loss": "99", "train_num_updates": "10"}'),
        form.format("train_inner", inner(20, 8.5, 360)),
        # killed while writing, and resumed, slower
        form.format("train_inner", inner(20, 8.5)[:40]) + form.format("train_inner", inner(10, 9.25)),
        form.format("valid", valid(20, 8)),
    ]
    log.write_text("\n".join(lines))
    read = read_log(log)
    assert {update: record["loss"] for update, record in read.train.items()} == {10: 9.25, 20: 8.5}
    validated = [(update, record["loss"], record["accuracy"]) for update, record in read.valid.items()]
    assert validated == [(10, 9, 12.5), (20, 8, 12.5)]
    assert read.seconds == pytest.approx(46 + 10)  # of the first start's ten updates
    assert read_log(tmp_path) == read


def run(train_record, **losses):
    """A run with one record of training, and validation losses by update: `u10=9.0`."""
    found = {int(u[1:]): {"loss": loss, "num_updates": int(u[1:])} for u, loss in losses.items()}
    return TrainingLog({10: {"num_updates": 10, "lr": 0.1, **train_record}}, found)


def test_where_a_run_reaches_the_end_of_another():
    fast = run({}, u10=9.0, u20=7.0, u30=5.0)
    assert [reaches(fast, loss) for loss in (9.5, 6.0, 5.0, 4.9)] == [10, 25, 30, None]
    assert reaches(run({}), 5.0) is None
    labels = plot_training({"fast": fast, "slow": run({}, u10=9.0, u20=6.0)}, against="slow").axes[0].lines
    assert "after 83% of its updates" in labels[1].get_label()
    assert reaches(run({}, u10=float("nan"), u20=9.0, u30=7.0), 8.0) == 25


def test_of_two_networks_both_are_drawn(tmp_path):
    """The curves of a masked language model, a generator's loss, and the accuracy of a discriminator."""
    trained = {"loss": 30, "gen_loss": 9, "disc_auc": 50, "wps": 0, "num_updates": 10, "lr": 0.1}
    valid = {"valid_loss": 20, "valid_gen_loss": 8, "valid_disc_auc": 61, "valid_num_updates": 10}
    (tmp_path / "log").write_text("\n".join(json.dumps({"epoch": 1, **record}) for record in (trained, valid)))
    figure = plot_training({"a": read_log(tmp_path / "log"), "b": run({"loss": 7.0}, u10=7.0)})
    drawn = [[list(line.get_ydata()) for line in axes.lines] for axes in figure.axes]
    assert drawn == [[[9.0], [8.0], [7.0], [7.0]], [[50.0], [61.0], [], []], [[0.1], [0.1]]]
    assert "8.000 bits, AUC 61.0 after 10 updates" in figure.axes[0].lines[1].get_label()
