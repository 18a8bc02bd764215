import pytest
from fairseq.data.indexed_dataset import MMapIndexedDataset

from tupe.data import binarise as module
from tupe.data.binarise import binarise
from tupe.errors import UserError


@pytest.fixture
def files(tmp_path):
    dictionary = tmp_path / "symbols"
    dictionary.write_text("a 1\nb 1\n")
    for name, text in (("one", "a b\n\nb\n"), ("two", "b\n"), ("three", "\n" * 9)):
        (tmp_path / name).write_text(text)
    return tmp_path


def test_each_line_is_a_sequence(files):
    splits = {"train": [files / "one"], "valid": [files / "two", files / "three"]}
    binarise(files / "out", files / "symbols", splits, workers=2)
    data = {name: MMapIndexedDataset(str(files / "out" / name)) for name in ("train", "valid", "valid1")}
    assert [list(map(int, item)) for item in data["train"]] == [[4, 5, 2], [2], [5, 2]]
    assert (len(data["valid"]), len(data["valid1"])) == (1, 9)
    assert (files / "out/dict.txt").read_text() == (files / "symbols").read_text()
    assert {file.suffix for file in (files / "out").iterdir()} == {".txt", ".bin", ".idx"}


def test_a_line_that_is_lost_is_told(files, monkeypatch):
    from fairseq_cli import preprocess

    def without_a_line(args, main=preprocess.main):
        (files / "short").write_text("a b\n")
        args.trainpref = str(files / "short")
        main(args)

    monkeypatch.setattr(preprocess, "main", without_a_line)
    with pytest.raises(UserError, match=r"made 1 sequences of the 3 lines of .*one"):
        binarise(files / "out", files / "symbols", {"train": [files / "one"]})


@pytest.mark.parametrize("name", ["a,b", "a:b"])
def test_a_name_that_fairseq_reads_as_two(name, files):
    with pytest.raises(UserError, match=f"takes the '{name[1]}' in .*{name}"):
        module.check_folder(files / name)
