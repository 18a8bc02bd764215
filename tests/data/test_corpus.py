"""`tupe prepare-corpus` from text to fairseq's data: counts, the same result in every way to get there, errors."""

import json
import lzma
import os
import random

import numpy as np
import pytest
from fairseq.data import Dictionary
from fairseq.data.indexed_dataset import MMapIndexedDataset
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.data.conftest import as_text, made_documents
from tests.data.kills import run_killed
from tupe.cli.main import main
from tupe.data import corpus
from tupe.data.corpus import SHORT, held_out, join
from tupe.data.text import STAGES
from tupe.util import UserError, lock

OFF = ["--without", ",".join(STAGES)]
SMALL = ["--vocab-size", "130", "--valid-documents", "3", "--workers", "1"]


def prepare(out, *arguments):
    assert main(["prepare-corpus", *map(str, arguments), str(out)]) == 0
    return json.loads((out / "manifest.json").read_text())


def fails(capsys, out, *arguments):
    assert main(["prepare-corpus", *map(str, arguments), str(out)]) == 1
    return capsys.readouterr().err.splitlines()[-1]


def decoded(folder, split="train"):
    """The documents in fairseq's data, as lines of text."""
    dictionary = Dictionary.load(str(folder / "dict.txt"))
    documents = [[]]
    for item in MMapIndexedDataset(str(folder / split)):
        assert item[-1] == dictionary.eos()
        if len(item) == 1:
            documents.append([])
        else:
            pieces = dictionary.string(item[:-1])
            documents[-1].append(pieces.replace(" ", "").replace("▁", " ").strip())
    assert documents.pop() == []
    return documents


@pytest.fixture
def text(tmp_path):
    """Three files of 16, 12 and 8 documents: plain, packed JSON lines, a book."""
    folder = tmp_path / "text"
    (folder / "books").mkdir(parents=True)
    documents = made_documents(1, 28)
    (folder / "a.txt").write_text(as_text(documents[:16]))
    records = [json.dumps({"id": str(i), "text": "\n".join(lines)}) for i, lines in enumerate(documents[16:])]
    (folder / "wiki_00.xz").write_bytes(lzma.compress("\n".join(records).encode()))
    for number, lines in enumerate(made_documents(2, 8)):
        (folder / f"books/{number}.txt").write_text("\n\n".join(lines))
    return folder


def inputs(text):
    return [text / "a.txt", text / "wiki_00.xz", "--books", text / "books"]


def test_without_stages_the_data_is_the_text(text, tmp_path):
    content = prepare(tmp_path / "out", *inputs(text), *SMALL, *OFF)
    assert content["data"] == ["."] and str(tmp_path) not in json.dumps(content)
    expected = made_documents(1, 28) + made_documents(2, 8)
    train, valid = decoded(tmp_path / "out"), decoded(tmp_path / "out", "valid")
    assert len(valid) == 3
    assert sorted(train + valid) == sorted(expected)
    assert [lines for lines in expected if lines not in valid] == train  # in their order
    assert content["counts"][""]["documents"] == 36
    more = prepare(tmp_path / "more", *inputs(text), "--vocabulary", tmp_path / "out", "--workers", 1)
    assert more["settings"]["stages"] == content["settings"]["stages"] == []


def test_lines_in_are_lines_out_and_lines_counted(text, tmp_path):
    documents = made_documents(1, 16)
    new = [documents[5][0], "Xanadu Ozymandias Zembla", "\x00", "Anna likes the house."]
    (text / "b.txt").write_text(as_text([*documents[:4], new]))
    more = (text / "b.txt", *inputs(text)[2:], *SMALL, "--max-tokens", 20)
    counts = prepare(tmp_path / "out", *inputs(text)[:2], *more)["counts"][""]
    lines = counts["lines"]
    for name, number in counts.items():
        lines += number if name.endswith(": added") else -number if name.endswith(": removed") else 0
    assert lines == counts["train lines"] + counts["valid lines"]
    assert counts["deduplicate-documents: removed"] == 4 * 6
    for stage in ("deduplicate-lines", "repair-characters", "drop-rare-words"):
        assert counts[f"{stage}: removed"] == 1
    for stage in ("split-sentences: added", "cut-long-lines: added", "lower-case: changed", "tokenise: changed"):
        assert counts[stage] > 0
    data = decoded(tmp_path / "out") + decoded(tmp_path / "out", "valid")
    assert len(data) == counts["train documents"] + counts["valid documents"] == 37
    assert sum(map(len, data)) == counts["train lines"] + counts["valid lines"]
    assert all(line == line.lower() for lines in data for line in lines)


@pytest.fixture
def small_batches(monkeypatch):
    """Of some documents each, and hashes in several slices."""
    monkeypatch.setattr(corpus, "BATCH", 3)
    monkeypatch.setattr(corpus, "SLICE", 50)


def files(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if not path.is_dir()}


@pytest.fixture
def whole(text, tmp_path, small_batches):
    """Arguments, and the files that an uninterrupted run of one process makes."""
    arguments = [*inputs(text), *SMALL, "--shards", 2, "--max-tokens", 30]
    prepare(tmp_path / "whole", *arguments)
    return arguments, files(tmp_path / "whole")


def test_killed_again_and_again(whole, tmp_path):
    """Whatever is killed, whenever, with whatever number of processes, the result is the same."""
    rng = random.Random(0)
    statuses, command = [], ["prepare-corpus", *whole[0], tmp_path / "out"]
    for at in range(8):
        workers, who = rng.randint(1, 3), rng.choice(["all", "one"])
        statuses.append(run_killed([*command, "--workers", workers], at, who))
        with lock(tmp_path / "out/.lock", wait=True):  # the workers end too
            pass
    assert set(statuses) <= {0, 1, -9} and -9 in statuses  # 1: a worker was killed, and the command says so
    prepare(tmp_path / "out", *whole[0])
    assert files(tmp_path / "out") == whole[1]


def test_every_line_counts_for_the_vocabulary(tmp_path):
    """SentencePiece leaves out lines of more than 4,192 bytes: here all paragraphs of Thai, which has no spaces."""
    letters, rng = "กขคงจชซญดตถทนบปผพมยรลวสห", random.Random(0)
    thai = ["".join(rng.choices(letters, k=1500)) for _ in range(20)]
    (tmp_path / "text").mkdir()
    (tmp_path / "text/th.txt").write_text("\n\n".join(thai))
    (tmp_path / "text/en.txt").write_text(as_text(made_documents(0, 20)))
    content = prepare(
        tmp_path / "out", "--languages", tmp_path / "text", "--vocab-size", 120, "--valid-documents", 2, "--workers", 1
    )
    assert content["counts"]["th"]["train unknown tokens"] == 0


def test_done_is_done(text, tmp_path, capsys):
    prepare(tmp_path / "out", *inputs(text), *SMALL)
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "out").iterdir()}
    said = capsys.readouterr().out
    prepare(tmp_path / "out", *inputs(text), *SMALL)
    assert capsys.readouterr().out == said
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "out").iterdir()} == before
    sentence = fails(capsys, tmp_path / "out", *inputs(text), *SMALL, "--vocab-size", 140)
    assert "was started with vocab_size = 130, not 140" in sentence
    os.utime(text / "a.txt", (0, 0))
    assert "was started with inputs = " in fails(capsys, tmp_path / "out", *inputs(text), *SMALL)


def test_an_input_that_grows_while_it_is_read(text, tmp_path, capsys, monkeypatch):
    def growing(path, book, read=corpus.documents_of):
        yield from read(path, book)
        with (text / "a.txt").open("a") as file:
            file.write("one more line\n")

    monkeypatch.setattr(corpus, "documents_of", growing)
    assert "a.txt changed while it was read" in fails(capsys, tmp_path / "out", *inputs(text), *SMALL)
    assert not (tmp_path / "out" / corpus.WORK / "read").exists()


def test_lines_with_too_many_rare_words_go(tmp_path):
    lines = ["the cat sat", "the cat sat the cat sat", "the cat ozymandias", "the cat sat ozymandias", "sat"]
    lines.append("the cat the cat the cat the tac eht tas")
    (tmp_path / "text.txt").write_text("\n".join([*lines, "", "the cat", "", "the cat"]))
    options = ("--vocab-size", 22, "--valid-documents", 1, "--without", ",".join({*STAGES} - {"drop-rare-words"}))
    prepare(tmp_path / "out", tmp_path / "text.txt", *options)
    left = [line for lines in decoded(tmp_path / "out") for line in lines]
    assert "the cat ozymandias" not in left and "the cat sat ozymandias" in left and "sat" in left  # five times
    assert lines[-1] in left  # three rare words of ten


def test_held_out_by_hand():
    none = np.zeros(50, dtype=bool)
    shares = [held_out(np.arange(50, dtype="<u8"), none, share).sum() for share in (0.0, 0.001, 0.1, 0)]
    assert shares == [0, 1, 5, 0]
    again = np.array([False, False, True])
    assert held_out(np.array([5, 1, 1], "<u8"), again, 1).tolist() == [False, True, False]
    assert held_out(np.array([5, 1, 1], "<u8"), none[:3], 1).tolist() == [False, True, True]
    with pytest.raises(UserError, match="Holding out 2 of 2 distinct documents"):
        held_out(np.array([5, 1, 1], "<u8"), none[:3], 2)


HASHES = st.lists(st.integers(0, 2**64 - 1), min_size=2, unique=True).map(lambda numbers: np.array(numbers, "<u8"))


@settings(deadline=None)
@given(HASHES, st.randoms(use_true_random=False), st.data())
def test_the_same_documents_in_any_order(hashes, rng, data):
    number = data.draw(st.integers(0, len(hashes) - 1))
    order = list(range(len(hashes)))
    rng.shuffle(order)
    none = np.zeros(len(hashes), dtype=bool)
    marked = held_out(hashes, none, number)
    assert marked.sum() == number
    assert (held_out(hashes[order], none, number) == marked[order]).all()


@settings(deadline=None)
@given(st.lists(st.integers(0, 5) | st.integers(2**64 - 3, 2**64 - 1), min_size=1), st.integers(1, 7))
def test_each_hash_after_the_first_is_marked(tmp_path_factory, hashes, slice_size):
    path, seen = tmp_path_factory.getbasetemp() / "lines", set()
    np.array(hashes, "<u8").tofile(path)
    expected = [number in seen or bool(seen.add(number)) for number in hashes]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(corpus, "SLICE", slice_size)  # hashes are compared in several ranges
        assert corpus.repeated(path, ("deduplicate-lines",)).tolist() == expected


JOINED = st.lists(st.integers(1, 2 * SHORT).map(lambda words: " ".join(["w"] * words)))


@settings(deadline=None)
@given(JOINED)
def test_short_lines_are_joined_and_no_word_is_lost(lines):
    joined = join(lines)
    assert " ".join(joined) == " ".join(lines)
    assert all(len(line.split()) >= SHORT for line in joined[:-1])
    assert all(len(line.split()) < 3 * SHORT for line in joined)


def test_a_language_without_spaces_has_words_too():
    sentence = "老房子自一八八五年以来一直矗立在城市的河边，安娜和她的朋友从海上看到它。"
    assert len(join([sentence[:20], sentence])) == 1  # ten words and one
    assert join([sentence, sentence, "短。", "短。"]) == [sentence, sentence, "短。 短。"]
    assert join(["บ้านเก่าตั้งอยู่ริมแม่น้ำในเมืองตั้งแต่ปี", "สั้น"]) == ["บ้านเก่าตั้งอยู่ริมแม่น้ำในเมืองตั้งแต่ปี", "สั้น"]
