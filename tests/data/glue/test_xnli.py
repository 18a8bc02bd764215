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
    return main(["prepare-glue", str(download), str(prepared), str(out), *tasks, "--partial", "--workers", "1"])


def test_the_languages_that_are_there(download, prepared, capsys):
    path = download / "XNLI/test-sw.tsv"
    path.write_text(path.read_text().replace("contradiction", "contradictory") + "\na\tb\t-\n")
    path.with_name("test-qq.tsv").touch()
    assert prepare(download, prepared, "XNLI") == 0
    printed = capsys.readouterr().out
    assert printed.count("warning") == 1 and "warning: XNLI/test-qq.tsv is left out: ar, bg, de" in printed
    assert "1 dropped: the label '-', not contradiction or neutral or entailment" in printed
    content = json.loads((download.parent / "out/XNLI/manifest.json").read_text())
    assert sorted(content["splits"]) == ["test-de", "test-sw", "train", "valid", "valid-de", "valid-en"]
    assert content["splits"]["test-sw"]["kept"] == content["splits"]["test-de"]["kept"] == 8


def test_languages_of_other_lengths_are_refused(download, prepared, capsys):
    path = download / "XNLI/test-sw.tsv"
    path.write_text(path.read_text().rpartition("\n")[0])
    assert prepare(download, prepared, "XNLI") == 1
    assert "files test-sw and test-de do not have the same labels line by line" in capsys.readouterr().err
    (download / "XNLI/dev-en.tsv").unlink()
    assert prepare(download, prepared, "XNLI") == 1
    assert "there is no" in capsys.readouterr().err
