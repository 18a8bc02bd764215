"""`tupe prepare-translation`: what fairseq reads is what the files say, and what was left out is counted."""

import json
import re
import shutil
import signal

import pytest
from fairseq.data import Dictionary
from fairseq.data.indexed_dataset import MMapIndexedDataset

from tests.data.kills import run_killed
from tests.data.translation.conftest import pairs
from tupe.data.corpus.tokenizers import SentencePieceTokenizer
from tupe.data.translation.cleaning import Cleaning
from tupe.files import LOCK, lock


def test_data_are_what_the_files_say(text, prepare, tmp_path, capsys):
    source, target = pairs(60)
    source[7], target[9], target[11] = "", "", "ein " * 30
    valid = (["the dog", "", "a  man"], ["der Hund", "", "ein Mann"])
    files = text("train", source, target, packed=True), text("valid", *valid), text("test", *valid)
    assert prepare("--train", files[0], "--valid", files[1], "--test", files[2], files[1], "--max-ratio", 2) == 0
    out, encode = tmp_path / "out", SentencePieceTokenizer(tmp_path / "out/sentencepiece.bpe.model")
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


@pytest.fixture
def options(text):
    """What fills a folder."""
    return ["--train", text("train", *pairs(40)), "--valid", text("valid", *pairs(4))]


def test_the_training_data_as_validation_data_is_a_warning(text, prepare, capsys):
    prefix = text("train", *pairs(40))
    assert prepare("--train", prefix, "--valid", prefix) == 0
    assert "warning: the valid data are the training data: " in capsys.readouterr().out


def test_a_target_that_is_the_source_is_a_warning(options, text, prepare, capsys):
    same = text("same", *[pairs(40)[0]] * 2)
    assert prepare(*options, "--test", same) == 0
    assert "warning: source and target of test are the same text: a model would" in capsys.readouterr().out


def tree(folder):
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_again_it_is_there_and_what_is_of_others_is_refused(options, text, prepare, tmp_path, capsys):
    assert prepare(*options) == 0
    assert not (tmp_path / "out/work").exists()
    before = (tmp_path / "out/train.en-de.en.bin").stat().st_mtime_ns
    assert prepare(*options, "--verify") == 0
    assert (tmp_path / "out/train.en-de.en.bin").stat().st_mtime_ns == before
    assert prepare(*options, "--max-tokens", 99) == 1
    assert "out was begun with settings.cleaning.max_tokens = 250, not 99: choose" in capsys.readouterr().err
    text("train", *pairs(41))
    assert prepare(*options) == 1
    assert "out was begun with files.train.train.en = " in capsys.readouterr().err
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/file").touch()
    assert prepare(*options, out="mine") == 1
    assert "mine holds what is not of tupe prepare-translation (file)" in capsys.readouterr().err
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["file"]
    with lock(tmp_path / "new" / LOCK):
        assert prepare(*options, out="new") == 1
        assert "another process is working in" in capsys.readouterr().err


def test_the_manifest_has_no_path_of_this_machine(options, prepare, tmp_path):
    assert prepare(*options) == 0
    assert str(tmp_path) not in (tmp_path / "out/manifest.json").read_text() + (tmp_path / "out/.tupe.json").read_text()


@pytest.mark.parametrize(
    ("name", "change", "said"),
    [
        ("train.en-de.de.bin", lambda data: data[:-2], "has .* bytes, not the"),
        ("train.en-de.en.idx", lambda data: b"", "has 0 bytes, not the"),
        ("valid.en-de.en.bin", None, "is missing"),
        ("dict.de.txt", lambda data: data.replace(b"a", b"e"), "is not the one that tupe prepare-translation wrote"),
        ("manifest.json", lambda data: data[:99], "no JSON from line"),
        ("manifest.json", lambda data: data.replace(b'"version": 2', b'"version": 1'), "of version 1"),
        ("manifest.json", lambda data: data.replace(b'"dict.de.txt"', b'"another"'), r"does not name dict\.de"),
    ],
)
def test_damage_is_found(name, change, said, options, prepare, tmp_path, capsys):
    assert prepare(*options) == 0
    path = tmp_path / "out" / name
    if change is None:
        path.unlink()
    else:
        path.write_bytes(change(path.read_bytes()))
    before = tree(tmp_path)
    assert prepare(*options) == 1
    assert re.fullmatch(rf"error: [^\n]*{said}[^\n]*\n", capsys.readouterr().err)
    assert tree(tmp_path) == before


def test_what_only_checksums_show(options, prepare, tmp_path, capsys):
    assert prepare(*options) == 0
    path = tmp_path / "out/train.en-de.en.bin"
    path.write_bytes(bytes(reversed(path.read_bytes())))
    assert prepare(*options) == 0
    assert prepare(*options, "--verify") == 1
    assert "train.en-de.en.bin is not the one" in capsys.readouterr().err


def test_killed_at_any_file_it_goes_on(options, prepare, tmp_path):
    assert prepare(*options) == 0
    whole = tree(tmp_path / "out")
    command = ["prepare-translation", tmp_path / "out", "en", "de", "--vocab-size", "60", *options, "--workers", 1]
    for at in range(0, 36, 3):
        shutil.rmtree(tmp_path / "out")
        assert run_killed(command, at, "all") == -signal.SIGKILL
        assert prepare(*options, "--workers", 1 + at % 2) == 0
        assert tree(tmp_path / "out") == whole


def test_what_was_put_in_meanwhile_is_not_written_over(options, prepare, tmp_path, capsys):
    command = ["prepare-translation", tmp_path / "out", "en", "de", "--vocab-size", "60", *options, "--workers", 1]
    run_killed(command, 8, "all")
    (tmp_path / "out/dict.txt").write_text("mine")
    for _ in range(2):
        assert prepare(*options) == 1
        assert "dict.txt is there, but not of tupe prepare-translation" in capsys.readouterr().err
        assert (tmp_path / "out/work/manifest.json").exists()
    assert (tmp_path / "out/dict.txt").read_text() == "mine"
    (tmp_path / "out/dict.txt").unlink()
    assert prepare(*options) == 0


@pytest.mark.parametrize(
    ("source", "target", "sentence"),
    [
        (["a"] * 5, ["ein"] * 3, r"train.en has 5 lines and .*train.de 3: line n of the one must be"),
        (["a"] * 3, ["ein"] * 7, r"train.en has 3 lines and .*train.de 7"),
        ([], [], r"train.en is empty"),
        (["a"] * 40, [""] * 40, r"no vocabulary of 60 subwords can be made"),
        (
            pairs(40)[0],
            [f"{line} x y z" * 9 for line in pairs(40)[1]],
            r"none is left \(40 one side more than 1.5 times",
        ),
        (
            [" ".join(pair) for pair in zip(*pairs(40))],
            [""] * 40,
            r"of 40 pairs none is left \(40 empty on one side\): mend them, or raise",
        ),
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
        (10, 11, "longer than 10 tokens"),
        (2, 4, "one side more than 1.5 times as long as the other"),
        (2, 3, None),
        (10, 10, None),
    ],
)
def test_reasons(source, target, reason):
    assert Cleaning(10, 1.5).reason(source, target) == reason
    assert Cleaning(10, 1.5).reason(target, source) == reason
