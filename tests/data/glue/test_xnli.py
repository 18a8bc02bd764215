"""XNLI through `tupe prepare-glue`: trained on MNLI's file, a test set for each language."""

import json

import pytest

from tests.data.glue.test_prepare import write_task
from tupe.cli.main import main


@pytest.fixture
def download(tmp_path):
    write_task(tmp_path / "download", "XNLI")
    for path in (tmp_path / "download/XNLI").glob("*.tsv"):
        if not path.name.startswith("dev-en") and path.stem not in ("dev-de", "test-de", "test-sw"):
            path.unlink()
    return tmp_path / "download"


def prepare(download, prepared, *tasks):
    out = download.parent / "out"
    return main(["prepare-glue", str(download), str(prepared), *tasks, str(out), "--partial", "--workers", "1"])


def test_the_languages_that_are_there(download, prepared, capsys):
    path = download / "XNLI/test-sw.tsv"
    path.write_text(path.read_text().replace("contradiction", "contradictory") + "\na\tb\t-\n")
    assert prepare(download, prepared, "XNLI") == 0
    assert "XNLI   test-sw rows: 9 read, 8 kept, 1 dropped" in capsys.readouterr().out
    content = json.loads((download.parent / "out/XNLI/manifest.json").read_text())
    assert sorted(content["splits"]) == ["test-de", "test-sw", "train", "valid", "valid-de", "valid-en"]
    assert content["splits"]["test-sw"]["kept"] == content["splits"]["test-de"]["kept"] == 8
