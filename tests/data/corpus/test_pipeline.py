"""`tupe prepare-corpus` from text to fairseq's data: counts, the same result in every way to get there, errors."""

import json
import lzma
import os
import random
import shutil
from unittest.mock import Mock

import pytest
from fairseq.data import Dictionary
from fairseq.data.indexed_dataset import MMapIndexedDataset

from tests.data.conftest import as_text, made_documents
from tests.data.kills import run_killed
from tupe.cli.main import main
from tupe.data.corpus import duplicates, scan, vocabulary
from tupe.data.text.stages import STAGES
from tupe.files import lock

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
def test_killed_again_and_again(seed, whole, tmp_path, capsys):
    """Whatever is killed, whenever, with whatever number of processes: TUPE_SEED=... repeats a failure."""
    rng = random.Random(seed)
    print(f"TUPE_SEED={seed}")
    statuses, command = [], ["prepare-corpus", tmp_path / "out", *whole[0]]
    while 0 not in statuses:
        at, workers, who = rng.randrange(100), rng.randint(1, 3), rng.choice(["all", "one"])
        statuses.append(run_killed([*command, "--workers", workers], at, who))
        assert len(statuses) < 30
    assert set(statuses) <= {0, 1, -9}  # 1: a worker was killed, and the command says so
    assert files(tmp_path / "out") == whole[1]


def test_a_killed_worker_is_told(whole, tmp_path, capfd):
    """In every step: the command ends, and goes on where it was when started again."""
    told = [run_killed(["prepare-corpus", tmp_path / "out", *whole[0], "--workers", 2], 9, "one") for _ in range(3)]
    assert told == [1, 1, 1]
    assert capfd.readouterr().err.count("error: a process was killed, probably for want of memory") == 3


def test_a_file_is_read_on_where_it_was(whole, text, tmp_path, monkeypatch):
    """Not from its beginning: what was read before may even be gone."""
    assert run_killed(["prepare-corpus", tmp_path / "out", *whole[0]], 14, "all") == -9
    notes = sorted((tmp_path / "out/work/scan").glob("000000.*.json"))
    stopped = json.loads(notes[-1].read_text())["next"]["bytes"]
    skipped = []
    read_on = scan.read_on
    monkeypatch.setattr(scan, "read_on", lambda path, book, counts, skip, lines: skipped.append(skip) or read_on(
        path, book, counts, skip, lines))  # fmt: skip
    prepare(tmp_path / "out", *whole[0])
    assert skipped[0] == stopped > 0
    assert files(tmp_path / "out") == whole[1]


def test_few_files_are_open(whole, tmp_path):
    import resource

    limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + 25, limit[1]))
    try:
        prepare(tmp_path / "out", *whole[0], "--shards", 30)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limit)


def test_a_vocabulary_is_shared(text, whole, tmp_path, capsys):
    """Two machines with one vocabulary make what fairseq reads as one corpus."""
    arguments = ["--vocabulary", tmp_path / "whole", "--valid-documents", 2, "--workers", 1]
    content = prepare(tmp_path / "out", text / "a.txt", *arguments)
    for name in ("dict.txt", "sentencepiece.bpe.model"):
        assert (tmp_path / "out" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    assert content["settings"]["vocab_size"] == 130
    sentence = fails(capsys, tmp_path / "no", text / "a.txt", *arguments, "--language", "de")
    assert "the corpus of --vocabulary has language = en, not de" in sentence
    sentence = fails(capsys, tmp_path / "no", text / "a.txt", *arguments, "--vocab-alpha", 0.9)
    assert "--vocab-alpha is for --languages, but these texts are of one: leave it out." in sentence
    sentence = fails(capsys, tmp_path / "no", text / "a.txt", *arguments, "--vocab-size", 140)
    assert "--vocab-size is 140, but the vocabulary of --vocabulary has 130: leave it out." in sentence
    assert not (tmp_path / "no").exists()


def test_sizes_are_checked_always_and_checksums_when_asked(whole, tmp_path, capsys):
    out = shutil.copytree(tmp_path / "whole", tmp_path / "out")
    data = (out / "train.bin").read_bytes()
    assert main(["prepare-corpus", str(out), "--verify"]) == 0
    assert "verified: 9 files" in capsys.readouterr().out
    (out / "train.bin").write_bytes(bytes(reversed(data)))
    prepare(out, *whole[0])
    assert "train.bin is not the one" in fails(capsys, out, "--verify")
    (out / "train.bin").write_bytes(data[:-2])
    assert "train.bin has" in fails(capsys, out, *whole[0])
    (out / "train.bin").unlink()
    assert "train.bin is missing" in fails(capsys, out, *whole[0])
    assert "there is no" in fails(capsys, tmp_path / "no", "--verify")


def test_what_others_made_stays(whole, tmp_path, capsys):
    out = tmp_path / "out"
    out.mkdir()
    for name in ("dict.txt", ".notes.part", "sentencepiece.bpe.model"):
        (out / name).write_text("mine")
        assert f"holds what is not of tupe prepare-corpus ({name})" in fails(capsys, out, *whole[0])
        assert os.listdir(out) == [name]
        (out / name).unlink()
    assert run_killed(["prepare-corpus", out, *whole[0]], 20, "all") == -9
    for name in ("train.bin", ".notes.part", "shard1"):  # put there while the command did not run
        (out / name).write_text("mine")
    assert "shard1 is there, but not of tupe prepare-corpus: move it away" in fails(capsys, out, *whole[0])
    (out / "shard1").unlink()
    assert "train.bin is there, but not of tupe prepare-corpus: move it away" in fails(capsys, out, *whole[0])
    assert (out / "train.bin").read_text() == (out / ".notes.part").read_text() == "mine"
    for name in ("train.bin", ".notes.part"):
        (out / name).unlink()
    prepare(out, *whole[0])
    assert files(out) == whole[1]


def test_done_is_done(text, tmp_path, capsys):
    prepare(tmp_path / "out", *inputs(text), *SMALL)
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "out").iterdir()}
    said = capsys.readouterr().out
    prepare(tmp_path / "out", *inputs(text), *SMALL)
    assert capsys.readouterr().out == said
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "out").iterdir()} == before
    sentence = fails(capsys, tmp_path / "out", *inputs(text), *SMALL, "--vocab-size", 140)
    assert "was begun with settings.vocab_size = 130, not 140" in sentence
    os.utime(text / "a.txt", (0, 0))
    assert "was begun with inputs.a.txt = file 0, " in fails(capsys, tmp_path / "out", *inputs(text), *SMALL)


def test_one_process_at_a_time(text, tmp_path, capsys):
    with lock(tmp_path / "out/.tupe.lock"):
        assert "another process is working in" in fails(capsys, tmp_path / "out", *inputs(text), *SMALL)
    prepare(tmp_path / "out", *inputs(text), *SMALL)


def test_what_is_wrong_is_told(text, tmp_path, capsys):
    out = tmp_path / "out"
    assert "there is no" in fails(capsys, out, tmp_path / "nothing")
    assert "takes the ':' in" in fails(capsys, tmp_path / "a:b", *inputs(text))
    assert "is a file, but OUT is a folder" in fails(capsys, *inputs(text))
    assert "--valid-documents is 1.5" in fails(capsys, out, *inputs(text), "--valid-documents", 1.5)
    assert not out.exists()
    assert "36 cannot be held out" in fails(capsys, tmp_path / "all", *inputs(text), "--valid-documents", 36)
    assert "33 training documents do not fill 34 shards" in fails(capsys, out, *inputs(text), *SMALL, "--shards", 34)
    (text / "empty.txt").write_text("\n \n")
    assert "there is no text in the inputs" in fails(capsys, tmp_path / "no", text / "empty.txt")
    (text / "other.jsonl").write_text('{"content": "no text"}\n')
    assert "or JSON lines with a `text`." in fails(capsys, tmp_path / "no", text / "other.jsonl")
    (tmp_path / "binary").write_bytes(bytes(100))
    assert "binary is a binary file" in fails(capsys, tmp_path / "no", tmp_path / "binary", "--workers", 1)
    assert "too high" in fails(capsys, tmp_path / "big", *inputs(text), "--workers", 1)
    assert not (tmp_path / "big").exists()


def test_a_folder_in_which_nothing_was_made_is_free_for_other_settings(text, tmp_path, capsys, monkeypatch):
    out = tmp_path / "out"
    with monkeypatch.context() as patch:
        patch.setattr(vocabulary, "train", Mock(side_effect=KeyboardInterrupt))
        assert main(["prepare-corpus", *map(str, (out, *inputs(text), "--workers", 1))]) == 130
    assert "was begun with" in fails(capsys, out, *inputs(text), *SMALL)
    assert "too high" in fails(capsys, out, *inputs(text), "--workers", 1)
    prepare(out, *inputs(text), *SMALL)


def test_text_that_is_all_dropped(tmp_path, capsys):
    (tmp_path / "a.txt").write_text("one two three\n\nfour five six\n\nseven eight nine")
    arguments = ("--vocab-size", 40, "--workers", 1)
    assert "leave no line for training" in fails(capsys, tmp_path / "out", tmp_path / "a.txt", *arguments)
    assert "leave no line for training" in fails(capsys, tmp_path / "out", tmp_path / "a.txt", *arguments)
    (tmp_path / "b.txt").write_text("\x80\n\n\x81\n\n\x82\n")
    assert "leave no line for training" in fails(capsys, tmp_path / "no", tmp_path / "b.txt", *arguments)
    prepare(tmp_path / "other", tmp_path / "a.txt", *arguments, "--no-drop-rare-words")
