"""`tupe prepare-corpus` from text to fairseq's data: counts, the same result in every way to get there, errors."""

import json
import lzma
import os
import random

import pytest
from fairseq.data import Dictionary
from fairseq.data.indexed_dataset import MMapIndexedDataset

from tests.data.conftest import as_text, made_documents
from tests.data.kills import run_killed
from tupe.cli.main import main
from tupe.data.corpus import duplicates, scan
from tupe.data.text.stages import STAGES

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
    expected = made_documents(1, 28) + made_documents(2, 8)
    train, valid = decoded(tmp_path / "out"), decoded(tmp_path / "out", "valid")
    assert len(valid) == 3
    assert sorted(train + valid) == sorted(expected)
    assert [lines for lines in expected if lines not in valid] == train  # in their order
    assert content["counts"]["read"]["documents"] == 36


def test_lines_in_are_lines_out_and_lines_counted(text, tmp_path):
    documents = made_documents(1, 16)
    new = [documents[5][0], "Xanadu Ozymandias Zembla", "\x00", "Anna likes the house."]
    (text / "b.txt").write_text(as_text([*documents[:4], new]))
    content = prepare(
        tmp_path / "out", *inputs(text)[:2], text / "b.txt", *inputs(text)[2:], *SMALL, "--max-tokens", 20
    )
    read, stages, left = (content["counts"][name] for name in ("read", "stages", "left"))
    lines = read["lines"] - read["empty lines"]
    for name, number in stages.items():
        lines += number if name.endswith(": added") else -number if name.endswith(": removed") else 0
    assert lines == left["train lines"] + left["valid lines"]
    assert stages["deduplicate-documents: removed"] == 4 * 6
    assert stages["deduplicate-lines: removed"] == 1
    assert stages["repair-characters: removed"] == 1
    assert stages["drop-rare-words: removed"] == 1
    for stage in ("split-sentences: added", "cut-long-lines: added", "lower-case: changed", "tokenise: changed"):
        assert stages[stage] > 0
    data = decoded(tmp_path / "out") + decoded(tmp_path / "out", "valid")
    assert len(data) == left["train documents"] + left["valid documents"] == 37
    assert sum(map(len, data)) == left["train lines"] + left["valid lines"]
    assert all(line == line.lower() for lines in data for line in lines)


@pytest.fixture
def small_parts(monkeypatch):
    """Of some documents each, so that a file has several, and hashes in several blocks."""
    monkeypatch.setattr(scan, "PART", 4000)
    monkeypatch.setattr(duplicates, "SLICE", 50)


def files(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if not path.is_dir()}


@pytest.fixture
def whole(text, tmp_path, small_parts):
    """Arguments, and the files that an uninterrupted run of one process makes."""
    arguments = [*inputs(text), *SMALL, "--shards", 2, "--max-tokens", 30]
    prepare(tmp_path / "whole", *arguments)
    return arguments, files(tmp_path / "whole")


def test_the_same_with_more_processes(whole, tmp_path):
    prepare(tmp_path / "three", *whole[0], "--workers", 3)
    assert files(tmp_path / "three") == whole[1]


SEEDS = [int(os.environ["TUPE_SEED"])] if "TUPE_SEED" in os.environ else range(2)


@pytest.mark.parametrize("seed", SEEDS)
def test_killed_again_and_again(seed, whole, tmp_path):
    """Whatever is killed, whenever, with whatever number of processes: TUPE_SEED=... repeats a failure."""
    rng = random.Random(seed)
    print(f"TUPE_SEED={seed}")
    statuses, command = [], ["prepare-corpus", *whole[0], tmp_path / "out"]
    while 0 not in statuses:
        at, workers, who = rng.randrange(100), rng.randint(1, 3), rng.choice(["all", "one"])
        statuses.append(run_killed([*command, "--workers", workers], at, who))
        assert len(statuses) < 30
    assert set(statuses) <= {0, 1, -9}  # 1: a worker was killed, and the command says so
    assert files(tmp_path / "out") == whole[1]


def test_few_files_are_open(whole, tmp_path):
    import resource

    limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + 25, limit[1]))
    try:
        prepare(tmp_path / "out", *whole[0], "--shards", 30)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limit)


def test_a_vocabulary_is_shared(text, whole, tmp_path):
    """Two machines with one vocabulary make what fairseq reads as one corpus."""
    arguments = ["--vocabulary", tmp_path / "whole", "--valid-documents", 2, "--workers", 1]
    content = prepare(tmp_path / "out", text / "a.txt", *arguments)
    for name in ("dict.txt", "sentencepiece.bpe.model"):
        assert (tmp_path / "out" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    assert content["settings"]["vocab_size"] == 130


def test_done_is_done(text, tmp_path, capsys):
    prepare(tmp_path / "out", *inputs(text), *SMALL)
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "out").iterdir()}
    said = capsys.readouterr().out
    prepare(tmp_path / "out", *inputs(text), *SMALL)
    assert capsys.readouterr().out == said
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "out").iterdir()} == before
    sentence = fails(capsys, tmp_path / "out", *inputs(text), *SMALL, "--vocab-size", 140)
    assert "was begun with vocab_size = 130, not 140" in sentence
    os.utime(text / "a.txt", (0, 0))
    assert "was begun with inputs = " in fails(capsys, tmp_path / "out", *inputs(text), *SMALL)
