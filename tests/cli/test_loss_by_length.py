"""What the command prints and writes; the numbers are those of tests/analysis/test_length.py."""

import json

import pytest
import torch

from tests.samples import WORDS, write_checkpoint
from tupe.analysis import length
from tupe.cli.main import main


@pytest.fixture
def checkpoints(tmp_path, monkeypatch):
    monkeypatch.setattr(length, "read_stream", lambda *_: torch.arange(700).remainder(len(WORDS)) + 4)
    return [
        f"{name}={write_checkpoint(tmp_path / name, tmp_path, max_positions=8, name=name)}"
        for name in ("t5_tiny", "tupe_a_tiny")
    ]


def test_rows(checkpoints, tmp_path, capsys):
    outputs = ["--json", str(tmp_path / "length.json"), "--figure", str(tmp_path / "length.png")]
    assert main(["loss-by-length", *checkpoints, "--data", str(tmp_path), *outputs]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()[1:-2]]
    assert [row[:2] for row in rows[:5]] == [*(["t5_tiny", str(n)] for n in (8, 16, 32, 64)), ["tupe_a_tiny", "8"]]
    assert all(row[5] == "to" for row in rows[:5])
    assert " ".join(rows[5][1:]) == "16, 32, 64: too long; split the text into windows of 8"
    written = json.loads((tmp_path / "length.json").read_text())
    t5, tupe = (written["rows"][name] for name in ("t5_tiny", "tupe_a_tiny"))
    assert (list(t5), list(tupe), written["masks"]) == (["8", "16", "32", "64"], ["8"], 4)
    assert f"{t5['16']['bits']:.3f}" == rows[1][2]
    assert (tmp_path / "length.png").stat().st_size > 1000


def test_a_window_has_rows_of_its_own(checkpoints, tmp_path, capsys):
    words = ["--lengths", "8,16", "--window", "--data", str(tmp_path)]
    assert main(["loss-by-length", checkpoints[0], *words]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()[1:]]
    assert [row[:2] for row in rows] == [["t5_tiny", "8"], ["t5_tiny", "16"]] + [["t5_tiny,", "window"]] * 2
