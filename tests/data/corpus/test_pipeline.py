"""`tupe prepare-corpus` from text to fairseq's data: counts, the same result in every way to get there, errors."""

import json
import lzma
import os
import signal
import subprocess
import sys
import time

import pytest
from fairseq.data import Dictionary
from fairseq.data.indexed_dataset import MMapIndexedDataset

from tests.commands import ROOT
from tests.data.conftest import as_text, made_documents
from tupe.cli.main import main
from tupe.data.corpus.work import Work
from tupe.data.text.stages import STAGES

OFF = [f"--no-{stage}" for stage in STAGES]
SMALL = ["--vocab-size", "130", "--valid-documents", "3", "--workers", "1"]


def prepare(out, *arguments):
    assert main(["prepare-corpus", str(out), *map(str, arguments)]) == 0
    return json.loads((out / "manifest.json").read_text())


def fails(capsys, out, *arguments):
    assert main(["prepare-corpus", str(out), *map(str, arguments)]) == 1
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


def test_the_same_with_more_processes(text, tmp_path):
    one = prepare(tmp_path / "one", *inputs(text), *SMALL)
    two = prepare(tmp_path / "two", *inputs(text), *SMALL, "--workers", 2)
    assert one == two


def test_interrupted_anywhere_and_started_again(text, tmp_path, monkeypatch, capsys):
    """Interrupted after every file of every step, again and again; what was done is not done again."""
    arguments = (*inputs(text), *SMALL, "--shards", 2)
    whole = prepare(tmp_path / "whole", *arguments)
    finish, finished = Work.finish, []

    def finish_one(self, step, name, counts):
        finish(self, step, name, counts)
        finished.append((step, name))
        raise KeyboardInterrupt

    monkeypatch.setattr(Work, "finish", finish_one)
    for _ in range(3 * 10):  # ten files are scanned, cleaned and encoded
        with pytest.raises(KeyboardInterrupt):
            main(["prepare-corpus", str(tmp_path / "out"), *map(str, arguments)])
    assert len(set(finished)) == len(finished)
    assert prepare(tmp_path / "out", *arguments) == whole
    assert not (tmp_path / "out/work").exists()


@pytest.mark.parametrize("step", ["scan", "clean", "encode", "shards"])
def test_killed_and_started_again(step, text, tmp_path):
    arguments = list(map(str, (*inputs(text), *SMALL, "--shards", 2)))
    whole = prepare(tmp_path / "whole", *arguments)
    out = tmp_path / "out"
    command = [sys.executable, "-m", "tupe", "prepare-corpus", str(out), *arguments, "--workers", "2"]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while process.poll() is None and not any((out / "work" / step).glob("*")):
        time.sleep(0.002)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert prepare(out, *arguments) == whole
    assert list(out.glob(".*")) == []


def test_done_is_done(text, tmp_path, capsys):
    prepare(tmp_path / "out", *inputs(text), *SMALL)
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "out").iterdir()}
    said = capsys.readouterr().out
    prepare(tmp_path / "out", *inputs(text), *SMALL)
    assert capsys.readouterr().out == said
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "out").iterdir()} == before
    assert "was begun with vocab_size = 130, not 140" in fails(
        capsys, tmp_path / "out", *inputs(text), *SMALL, "--vocab-size", 140
    )
    os.utime(text / "a.txt", (0, 0))
    assert "other input files, or they have changed" in fails(capsys, tmp_path / "out", *inputs(text), *SMALL)


def test_one_process_at_a_time(text, tmp_path, capsys):
    work = tmp_path / "out/work"
    work.mkdir(parents=True)
    hold = "import fcntl, sys; lock = open(sys.argv[1], 'w'); fcntl.lockf(lock, fcntl.LOCK_EX); print(); input()"
    command = [sys.executable, "-u", "-c", hold, str(work / "lock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        other.stdout.readline()
        assert "another process is at work in" in fails(capsys, tmp_path / "out", *inputs(text), *SMALL)
        other.communicate(b"\n")
    prepare(tmp_path / "out", *inputs(text), *SMALL)


def test_what_is_wrong_is_told(text, tmp_path, capsys):
    out = tmp_path / "out"
    assert "there is no" in fails(capsys, out, tmp_path / "nothing")
    assert "takes the ':' in" in fails(capsys, tmp_path / "a:b", *inputs(text))
    assert "is a file, but OUT is a folder" in fails(capsys, *inputs(text))
    assert "--max-tokens is 0" in fails(capsys, out, *inputs(text), "--max-tokens", 0)
    assert "--valid-documents is 1.5" in fails(capsys, out, *inputs(text), "--valid-documents", 1.5)
    assert not out.exists()
    assert "36 cannot be held out" in fails(capsys, tmp_path / "all", *inputs(text), "--valid-documents", 36)
    assert "33 training documents do not fill 34 shards" in fails(capsys, out, *inputs(text), *SMALL, "--shards", 34)
    (text / "empty.txt").write_text("\n \n")
    assert "there is no text in the inputs" in fails(capsys, tmp_path / "no", text / "empty.txt")
    assert "too high" in fails(capsys, tmp_path / "big", *inputs(text), "--workers", 1)


def test_text_that_is_all_dropped(tmp_path, capsys):
    (tmp_path / "a.txt").write_text("one two three\n\nfour five six\n\nseven eight nine")
    arguments = ("--vocab-size", 40, "--workers", 1)
    assert "leave no line for training" in fails(capsys, tmp_path / "out", tmp_path / "a.txt", *arguments)
    assert "leave no line for training" in fails(capsys, tmp_path / "out", tmp_path / "a.txt", *arguments)
    (tmp_path / "b.txt").write_bytes(b"\x00\n\n\x01\n\n\x02\n")
    assert "leave no line for training" in fails(capsys, tmp_path / "no", tmp_path / "b.txt", *arguments)
    prepare(tmp_path / "other", tmp_path / "a.txt", *arguments, "--no-drop-rare-words")
