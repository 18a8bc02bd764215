"""A run beside the study's curves."""

import json
import statistics

import pytest

from tests.commands import ROOT
from tupe.cli.main import main
from tupe.errors import UserError
from tupe.experiments.study.references import reference

RECORDS = ROOT / "docs/results/runs/cpu/final"


def losses(name, update):
    records = [json.loads(path.read_text()) for path in RECORDS.glob(f"{name}.seed_*.json")]
    return [dict(record["curve"])[update] for record in records]


def test_it_is_the_mean_of_the_seeds():
    label, log = reference("bert_a")
    assert label == "BERT-A of the study" and not log.train
    assert len(losses("bert_a", 600)) == 3
    assert log.valid[600]["loss"] == pytest.approx(statistics.fmean(losses("bert_a", 600)))
    assert log.valid[6000]["hours"] == pytest.approx(log.valid[12000]["hours"] / 2)
    with pytest.raises(UserError, match=r"there is no reference tupe_x: --reference takes one of bert_a, "):
        reference("tupe_x")


def test_the_command(tmp_path, capsys):
    lines = [{"epoch": 1, "loss": 9.0, "num_updates": 10, "wps": 100, "wpb": 200, "lr": 0.1}]
    lines += [
        {"epoch": 1, "valid_loss": loss, "valid_num_updates": update} for update, loss in ((600, 8.0), (900, 7.0))
    ]
    log, picture = tmp_path / "train.log", tmp_path / "out.svg"
    log.write_text("\n".join(map(json.dumps, lines[:2])))
    command = ["plot", "training", f"mine={log}", "--reference", "tupe_a", "--output", str(picture)]
    assert main(command) == 0
    there = statistics.fmean(losses("tupe_a", 600))
    said = f"mine: 8.000 bits after 600 updates; TUPE-A of the study: {there:.3f} there"
    assert said in capsys.readouterr().out and picture.stat().st_size > 5_000
    log.write_text("\n".join(map(json.dumps, lines)))
    assert main(command) == 0
    between = statistics.fmean([there, statistics.fmean(losses("tupe_a", 1200))])
    assert f"mine: 7.000 bits after 900 updates; TUPE-A of the study: {between:.3f} there" in capsys.readouterr().out
    log.write_text(json.dumps({**lines[1], "valid_num_updates": 300}) + "\n" + json.dumps(lines[0]))
    assert main(command) == 0
    assert f"TUPE-A of the study: {there:.3f} after 600" in capsys.readouterr().out
    log.write_text(json.dumps(lines[0]))
    assert main(command) == 0
    assert "mine: not yet validated" in capsys.readouterr().out
