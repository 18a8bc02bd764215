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
    assert [row[:2] for row in rows] == [[name, str(n)] for name in ("t5_tiny", "tupe_a_tiny") for n in (8, 16, 32, 64)]
    assert rows[0][3:] == ["that", "of", "training"] == rows[4][3:]
    assert all(row[5] == "to" for row in rows[1:4])
    assert all(row[2:5] == ["-", "has", "8"] for row in rows[5:])
    written = json.loads((tmp_path / "length.json").read_text())
    assert (written["masks"], written["overrides"]) == (4, {})
    t5, tupe = (written["models"][name] for name in ("t5_tiny", "tupe_a_tiny"))
    lengths = t5["extensions"]["none"]
    assert list(lengths) == ["8", "16", "32", "64"] and list(tupe["extensions"]["none"]) == ["8"]
    assert f"{lengths['16']['bits']:.3f}" == rows[1][2]
    assert lengths["16"]["verdict"] in " ".join(rows[1])
    assert len(lengths["64"]["by_position"]) == 32
    assert (tmp_path / "length.png").stat().st_size > 1000


def test_with_other_fields_the_length_of_training_has_a_row_more(checkpoints, tmp_path, capsys):
    words = ["--lengths", "8", "16", "--override", "relative_max_distance=9", "--data", str(tmp_path)]
    assert main(["loss-by-length", checkpoints[0], *words]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()[1:]]
    assert [row[1] for row in rows] == ["8", "8", "16"]
    assert main(["loss-by-length", checkpoints[0], *words[:3], "--extend", "window", "--data", str(tmp_path)]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()[1:]]
    assert [row[:2] for row in rows[2:]] == [["t5_tiny,", "window"]] * 2
