"""`tupe prepare-translation`: what fairseq reads is what the files say, and what was left out is counted."""

import gzip
import json

import pytest
from fairseq.data import Dictionary
from fairseq.data.indexed_dataset import MMapIndexedDataset

from tupe.cli.main import main
from tupe.data.tokenizers import SAMPLE_BYTES, open_tokenizer
from tupe.data.translation import _is_kept

WORDS = {"a": "ein", "dog": "Hund", "man": "Mann", "sees": "sieht", "the": "der", "and": "und", "red": "rote"}


def pairs(number):
    """Sentences of which each word has its translation."""
    words = list(WORDS)
    source = [" ".join(words[(i * j + j) % len(words)] for j in range(1, 4 + i % 5)) for i in range(number)]
    return source, [" ".join(WORDS[word] for word in line.split()) for line in source]


@pytest.fixture
def text(tmp_path):
    """`text("train", source_lines, target_lines)`: writes the two files and returns their prefix."""

    def write(name, source, target, packed=False):
        for language, side in (("en", source), ("de", target)):
            content = "".join(f"{line}\n" for line in side).encode()
            path = tmp_path / "text" / f"{name}.{language}{'.gz' if packed else ''}"
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(gzip.compress(content) if packed else content)
        return str(tmp_path / "text" / name)

    return write


@pytest.fixture
def prepare(tmp_path):
    """`prepare("--train", ...)`: the exit status of the command, which writes to `tmp_path/out`."""

    def run(*options, out="out"):
        fixed = ["prepare-translation", "en", "de", str(tmp_path / out), "--vocab-size", "60", "--workers", "1"]
        return main([*fixed, *map(str, options)])

    return run


def test_data_are_what_the_files_say(text, prepare, tmp_path, capsys):
    source, target = pairs(60)
    source[7], target[9], target[11] = "", "", "ein " * 30
    valid = (["the dog", "", "a  man"], ["der Hund", "", "ein Mann"])
    files = text("train", source, target, packed=True), text("valid", *valid), text("test", *valid)
    assert prepare("--train", files[0], "--valid", files[1], "--test", f"{files[2]},{files[1]}", "--max-ratio", 2) == 0
    out, encode = tmp_path / "out", open_tokenizer(tmp_path / "out/sentencepiece.bpe.model")
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
    assert counts["train"] == {"pairs": 60, "dropped": 3} and counts["valid"] == {"pairs": 3}
    assert "train  60 pairs, 3 dropped" in capsys.readouterr().out
    assert str(tmp_path) not in (out / "manifest.json").read_text()


def test_escaped_text_is_characters(text, prepare, tmp_path, monkeypatch):
    """The vocabulary is of every second pair, and of both languages."""
    monkeypatch.setitem(SAMPLE_BYTES, "bpe", 5_000)
    escaped, plain = "AT&amp;T isn &apos;t a &lt; b &#91; &quot;", "AT&T isn 't a < b [ \""
    train = text("train", *([*side, escaped] * 3 for side in pairs(40)))
    test = text("test", [escaped], [escaped])
    assert prepare("--train", train, "--valid", train, "--test", test, "--max-ratio", 9) == 0
    assert (tmp_path / "out/text/test.en").read_text() == f"{plain}\n"
    dictionary = Dictionary.load(str(tmp_path / "out/dict.en.txt"))
    (item,) = MMapIndexedDataset(str(tmp_path / "out/test.en-de.en"))
    assert dictionary.string(item, "sentencepiece") == plain
    assert not any(dictionary.unk() in item for item in MMapIndexedDataset(str(tmp_path / "out/train.en-de.de")))


@pytest.mark.parametrize(
    ("source", "target", "kept"),
    [(0, 0, False), (3, 0, False), (10, 11, False), (2, 4, False), (2, 3, True), (10, 10, True)],
)
def test_lengths_of_training_pairs(source, target, kept):
    assert _is_kept(source, target, 10, 1.5) == _is_kept(target, source, 10, 1.5) == kept
