"""Released weights, in the folder TUPE_REAL_WEIGHTS that `python -m lab.real_weights` wrote: the same vectors."""

import os
from pathlib import Path

import pytest

from tests.checkpoints.foreign.conftest import LINES, opened
from tupe.cli.main import main

FOLDER = os.environ.get("TUPE_REAL_WEIGHTS", "")
pytestmark = pytest.mark.skipif(not FOLDER, reason="TUPE_REAL_WEIGHTS is not set: python -m lab.real_weights FOLDER")


@pytest.mark.parametrize(("name", "system"), [("minilm", "bert_r"), ("mpnet", "bert_r")])
def test_vectors_through_every_door(name, system, tmp_path, capsys):
    sentences = pytest.importorskip("sentence_transformers")
    out, exported = tmp_path / "out", tmp_path / "exported"
    wanted = sentences.SentenceTransformer(str(Path(FOLDER, name)), device="cpu").encode(LINES)
    assert main(["import", str(Path(FOLDER, name)), str(out)]) == 0
    vectors = opened(out).sentence_vectors(LINES)
    assert abs(vectors.numpy() - wanted).max() < 1e-6
    assert abs(vectors.norm(dim=1) - 1).max() < 1e-6
    for command in ("describe", "report"):
        page = [str(tmp_path / "page.html")] * (command == "report")
        assert main([command, str(out / "checkpoint.pt"), *page]) == 0
    assert main(["export", str(out / "checkpoint.pt"), str(out), str(exported)]) == 0
    again = sentences.SentenceTransformer(str(exported), device="cpu", trust_remote_code=True)
    assert abs(again.encode(LINES) - wanted).max() < 1e-6
    capsys.readouterr()
    assert main(["warm-start", str(out / "checkpoint.pt"), system, str(tmp_path / "new.pt")]) == 0
    assert "exact: the features of both differ by at most" in capsys.readouterr().out
