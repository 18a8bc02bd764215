"""`tupe prepare-corpus` of many languages: a folder for each, one vocabulary of text by smoothed frequency."""

import numpy as np
import pytest

from tests.data.conftest import as_text, made_documents
from tests.data.test_corpus import decoded, prepare
from tupe.data import corpus, tokenizers
from tupe.data.languages import languages, probabilities

LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
NUMBERS = {"en": 24, "he": 12, "zh": 9}  # documents
SMALL = ["--vocab-size", "170", "--valid-documents", "2", "--max-tokens", "30", "--shards", "2", "--workers", "1"]


def written_in(language, documents):
    """The same in letters of the language; Chinese has no spaces."""
    first = {"en": ord("a"), "he": ord("א"), "zh": ord("老")}[language]
    table = {letter: chr(first + place % 26) for place, letter in enumerate(LETTERS)} if language != "en" else {}
    if language == "zh":
        table.update({" ": "", ".": "。", ",": "，"})
    return [[line.translate(str.maketrans(table)) for line in lines] for lines in documents]


@pytest.fixture
def text(tmp_path, monkeypatch):
    """`more/he.txt` and `more/zh/a.txt`; `text/en/a.txt`, `text/en/b.txt`, the rest of it; batches are small."""
    monkeypatch.setattr(corpus, "BATCH", 3)
    made = {name: written_in(name, made_documents(seed, NUMBERS[name])) for seed, name in enumerate(NUMBERS)}
    (tmp_path / "text/en").mkdir(parents=True)
    (tmp_path / "more/zh").mkdir(parents=True)
    (tmp_path / "text/en/a.txt").write_text(as_text(made["en"][:10]))
    (tmp_path / "text/en/b.txt").write_text(as_text(made["en"][10:]))
    (tmp_path / "more/he.txt").write_text(as_text(made["he"]))
    (tmp_path / "more/zh/a.txt").write_text(as_text(made["zh"]))
    return made


def inputs(tmp_path):
    return ["--languages", tmp_path / "more", "--languages", tmp_path / "text", *SMALL]


def test_each_language_has_its_folder(text, tmp_path, capsys):
    content = prepare(tmp_path / "out", *inputs(tmp_path), "--without", "split-sentences,join-short-sentences")
    assert languages(tmp_path / "out") == ["en", "he", "zh"] == sorted(content["counts"])
    settings = content["settings"]
    assert [settings[name] for name in ("profile", "model_type", "vocab_alpha")] == ["sentencepiece", "unigram", 0.5]
    for name, documents in text.items():
        spelt = {"".join("".join(lines).split()) for lines in documents}  # long lines are cut
        found = []
        for folder, split in (("", "train"), ("", "valid"), ("shard1", "train")):
            out = tmp_path / "out" / folder / name
            (out / "dict.txt").symlink_to(tmp_path / "out/dict.txt")
            found.append(decoded(out, split))
            (out / "dict.txt").unlink()
        assert len(found[1]) == 2
        written = ["".join("".join(lines).split()) for documents in found for lines in documents]
        assert sorted(written) == sorted(one.replace("，", ",") for one in spelt)  # NFKC
        counts = content["counts"][name]
        assert counts["train documents"] + counts["valid documents"] == counts["documents"] == len(documents)
        assert counts["train unknown tokens"] == 0
    assert "zh      train unknown tokens  " in capsys.readouterr().out


def test_the_vocabulary_learns_by_smoothed_frequency(text, tmp_path, monkeypatch):
    learnt = []
    train = tokenizers.train
    monkeypatch.setattr(
        tokenizers, "train", lambda lines, *rest: learnt.append(lines := list(lines)) or train(lines * 9, *rest)
    )
    monkeypatch.setitem(tokenizers.SAMPLE_BYTES, "unigram", 12_000)
    prepare(tmp_path / "out", *inputs(tmp_path), "--vocab-alpha", "0.3", "--vocab-size", 140)
    (lines,) = learnt
    scripts = {"en": str.isascii, "he": lambda c: "א" <= c <= "ת", "zh": lambda c: c >= "老"}
    sizes, sampled = (dict.fromkeys(scripts, 0) for _ in range(2))
    for name, documents in text.items():
        sizes[name] = sum(len(line.encode()) + 1 for lines in documents for line in lines)
    for line in lines:
        (name,) = {name for name, of in scripts.items() if of(next(filter(str.isalpha, line)))}
        sampled[name] += len(line.encode()) + 1
    expected = 12_000 * probabilities(list(sizes.values()), 0.3)
    np.testing.assert_allclose(list(sampled.values()), expected, rtol=0.2)


def test_probabilities_by_hand():
    assert probabilities([1000, 10], 0.7) == pytest.approx([0.9617, 0.0383], abs=5e-5)
    assert probabilities([3, 1], 1.0) == pytest.approx([0.75, 0.25])
    assert probabilities([3, 1], 0.0) == pytest.approx([0.5, 0.5])


def test_codes(tmp_path):
    codes = ["be-x-old", "de", "simple", "zh-Hant"]
    for name in (*codes, "shard1/de"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "train.bin").write_bytes(b"data")
    assert languages(tmp_path) == codes
