"""`tupe prepare-translation`: what fairseq reads is what the files say, and what was left out is counted."""

import json
import re

import pytest
from fairseq.data import Dictionary
from fairseq.data.indexed_dataset import MMapIndexedDataset

from tests.data.translation.conftest import pairs
from tupe.data.corpus.vocabulary import Encoder
from tupe.data.translation.cleaning import Cleaning


def test_data_are_what_the_files_say(text, prepare, tmp_path, capsys):
    source, target = pairs(60)
    source[7], target[9], target[11] = "", "", "ein " * 30
    valid = (["the dog", "", "a  man"], ["der Hund", "", "ein Mann"])
    files = text("train", source, target, packed=True), text("valid", *valid), text("test", *valid)
    assert prepare("--train", files[0], "--valid", files[1], "--test", files[2], files[1], "--max-ratio", 2) == 0
    out, encode = tmp_path / "out", Encoder(tmp_path / "out/sentencepiece.bpe.model")
    dropped = (7, 9, 11)
    expected = {
        "train": [pair for number, pair in enumerate(zip(source, target)) if number not in dropped],
        **{split: list(zip(*valid)) for split in ("valid", "test", "test1")},
    }
    for split, lines in expected.items():
        for side, language in enumerate(("en", "de")):
            dictionary = Dictionary.load(str(out / f"dict.{language}.txt"))
            found = MMapIndexedDataset(str(out / f"{split}.en-de.{language}"))
            assert [item.tolist() for item in found] == [[*encode(pair[side]), dictionary.eos()] for pair in lines]
            spelt = [dictionary.string(item, "sentencepiece") for item in found]
            assert spelt == [" ".join(pair[side].split()) for pair in lines]
    assert (out / "dict.en.txt").read_bytes() == (out / "dict.de.txt").read_bytes() == (out / "dict.txt").read_bytes()
    assert len(Dictionary.load(str(out / "dict.txt"))) == 60
    assert (out / "text/test.de").read_text() == "der Hund\n\nein Mann\n"
    counts = json.loads((out / "manifest.json").read_text())["splits"]
    assert counts["train"]["kept"] == 57
    assert counts["train"]["empty on one side"] == 2
    assert counts["train"]["one side more than 2 times as long as the other"] == 1
    assert counts["valid"]["empty source lines"] == 1
    assert "57 kept, " in capsys.readouterr().out


def test_again_it_is_there_and_other_settings_are_refused(text, prepare, tmp_path, capsys):
    options = ["--train", text("train", *pairs(40)), "--valid", text("valid", *pairs(4))]
    assert prepare(*options) == 0
    before = (tmp_path / "out/train.en-de.en.bin").stat().st_mtime_ns
    assert prepare(*options) == 0
    assert (tmp_path / "out/train.en-de.en.bin").stat().st_mtime_ns == before
    assert prepare(*options, "--max-tokens", 99) == 1
    assert "holds data of other files or settings" in capsys.readouterr().err
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/file").touch()
    assert prepare(*options, out="mine") == 1
    assert "not made by this command" in capsys.readouterr().err
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["file"]


@pytest.mark.parametrize(
    ("source", "target", "sentence"),
    [
        (["a"] * 5, ["ein"] * 3, r"train.en has 5 lines and .*train.de 3: line n of the one must be"),
        (["a"] * 3, ["ein"] * 7, r"train.en has 3 lines and .*train.de 7"),
        ([], [], r"train.en is empty"),
        (["a"] * 40, [""] * 40, r"no vocabulary of 60 pieces can be made|none is left"),
    ],
)
def test_files_that_do_not_fit(source, target, sentence, text, prepare, tmp_path, capsys):
    assert prepare("--train", text("train", source, target), "--valid", text("valid", *pairs(4))) == 1
    error = capsys.readouterr().err
    assert re.search(sentence, error)
    assert error.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_bytes_that_are_no_utf8_and_files_that_are_missing(text, prepare, tmp_path, capsys):
    prefix = text("train", *pairs(5))
    (tmp_path / "text/train.de").write_bytes(b"ein\n\xff\n")
    assert prepare("--train", prefix, "--valid", prefix) == 1
    assert "line 2 of" in capsys.readouterr().err
    assert prepare("--train", tmp_path / "none", "--valid", prefix) == 1
    assert "there is no" in capsys.readouterr().err
    (tmp_path / "text/train.de.gz").write_bytes(b"\x1f\x8b\x08cut")
    (tmp_path / "text/train.de").unlink()
    assert prepare("--train", prefix, "--valid", prefix) == 1
    assert "cannot be read after its line" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("source", "target", "reason"),
    [
        (0, 0, "empty on both sides"),
        (3, 0, "empty on one side"),
        (10, 11, "longer than 10 pieces"),
        (2, 4, "one side more than 1.5 times as long as the other"),
        (2, 3, None),
        (10, 10, None),
    ],
)
def test_reasons(source, target, reason):
    assert Cleaning(10, 1.5).reason(source, target) == reason
    assert Cleaning(10, 1.5).reason(target, source) == reason
