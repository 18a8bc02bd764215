"""`tupe prepare-glue`: what fairseq's sentence prediction reads is what the GLUE files say."""

import dataclasses
import json
import os
import shutil
from pathlib import Path

import pytest
from fairseq.data import Dictionary
from fairseq.data.indexed_dataset import MMapIndexedDataset

from tests.data.kills import run_killed
from tupe.cli.main import main
from tupe.data.corpus.manifest import Manifest
from tupe.data.corpus.tokenizers import SentencePieceTokenizer
from tupe.data.glue.tasks import TASKS
from tupe.files import LOCK, lock

TEXTS = [
    "Anna sees the house, Bob!",
    "Carl likes\tone".replace("\t", " "),
    "Dora “hears” the old dog.",
    "www.a.org an apple",
]


def write_task(folder, name, rows=8):
    """Files of a task, in its layout, with few rows; text and label of row i follow from i."""
    task = TASKS[name]
    for split in task.splits:
        lines = ["\t".join(split.columns)] if split.header else []
        for row in range(rows):
            values = dict.fromkeys(split.columns, "-")
            for number, column in enumerate(task.texts):
                values[column] = TEXTS[(row + number) % len(TEXTS)]
            values[task.label] = task.classes[row % len(task.classes)] if task.classes else str(row % 6)
            lines.append("\t".join(values[column] for column in split.columns))
        path = folder / split.files[0]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(lines))


@pytest.fixture(scope="module")
def download(tmp_path_factory):
    folder = tmp_path_factory.mktemp("download")
    for name in TASKS:
        write_task(folder, name)
    return folder


@pytest.fixture(scope="module")
def made(download, prepared, tmp_path_factory):
    out = tmp_path_factory.mktemp("glue")
    assert main(["prepare-glue", str(download), str(prepared), str(out), "--partial", "--workers", "1"]) == 0
    return out


def numbers(folder, split):
    found = [item.tolist() for item in MMapIndexedDataset(str(folder / split))]
    assert {item.pop() for item in found} == {2}
    return found


def items(folder, split):
    dictionary = Dictionary.load(str(folder / "dict.txt"))
    return [" ".join(map(dictionary.symbols.__getitem__, item)) for item in numbers(folder, split)]


@pytest.mark.parametrize("name", TASKS)
def test_folders_say_what_the_files_say(name, made, prepared):
    task, corpus = TASKS[name], Manifest.load(prepared)
    processing, encode = corpus.text_processing(), SentencePieceTokenizer(corpus.model)
    for split in task.splits:
        for number in range(len(task.texts)):
            expected = [encode(processing.line(TEXTS[(row + number) % len(TEXTS)])) for row in range(8)]
            assert numbers(made / name / f"input{number}", split.name) == expected
        labels = made / name / "label"
        if not split.labelled:
            assert not list(labels.glob(f"{split.name}.*"))
        elif task.scale:
            expected = [(row % 6) / 5 for row in range(8)]
            assert [float(line) for line in (labels / f"{split.name}.label").read_text().split()] == expected
        else:
            assert items(labels, split.name) == [task.classes[row % len(task.classes)] for row in range(8)]
    if task.classes:
        assert Dictionary.load(str(made / name / "label/dict.txt")).symbols[4:] == list(task.classes)
    assert (made / name / "input1").exists() == (len(task.texts) == 2)
    assert (made / name / "input0/dict.txt").read_bytes() == corpus.dictionary.read_bytes()


def test_fairseq_reads_them(made):
    from types import SimpleNamespace

    from fairseq.tasks.sentence_prediction import SentencePredictionConfig, SentencePredictionTask

    for name, classes in (("STS-B", 1), ("MNLI", 3)):
        config = SentencePredictionConfig(data=str(made / name), num_classes=classes, init_token=0, separator_token=2)
        config = SimpleNamespace(**{**dataclasses.asdict(config), "regression_target": classes == 1, "seed": 1})
        task = SentencePredictionTask.setup_task(config)
        for split in ("train", "valid", *(("valid1",) if name == "MNLI" else ())):
            task.load_dataset(split)
            batch = task.dataset(split).collater([task.dataset(split)[i] for i in range(8)])
            assert len(batch["target"]) == 8
            assert batch["net_input"]["src_tokens"].max() < len(task.source_dictionary)


def bad_rows(task, split):
    """Rows that are malformed in every way there is, by their reason; a text that is only odd stays."""
    columns = len(split.columns)
    good = dict.fromkeys(split.columns, "-")
    rows = {f"{columns + 1} columns, not {columns}": ["-"] * (columns + 1), "nothing in it": [""]}
    if columns > 2:
        rows["2 columns, not " + str(columns)] = ["-", "-"]
    if split.labelled:
        for label in ("maybe", "7", "", "nan", "\udcff", "\0"):
            fields = [*{**good, task.label: label}.values()]
            shown = ascii(label)
            rows[f"the {'score' if task.scale else 'label'} {shown}"] = fields
    return rows


@pytest.fixture(scope="module")
def made_of_bad_rows(prepared, tmp_path_factory):
    folder = tmp_path_factory.mktemp("bad")
    for name, task in TASKS.items():
        write_task(folder, name)
        for split in {split.files[0]: split for split in task.splits}.values():
            with (folder / split.files[0]).open("ab") as file:
                for fields in [[], *bad_rows(task, split).values()]:
                    file.write("\t".join(fields).encode("utf-8", "surrogateescape") + b"\n")
    command = ["prepare-glue", str(folder), str(prepared), str(folder / "out"), "--partial", "--workers", "1"]
    assert [main(command) for _ in range(2)] == [0, 0]
    return folder / "out"


@pytest.mark.parametrize("name", TASKS)
def test_bad_rows_through_the_whole_command(name, made_of_bad_rows):
    task, content = TASKS[name], json.loads((made_of_bad_rows / name / "manifest.json").read_text())
    for split in task.splits:
        report, bad = content["splits"][split.name], bad_rows(task, split)
        found = report["dropped" if split.labelled else "empty"]
        assert len(found) == len(bad) == sum(found.values())
        assert all(any(reason.startswith(start) for reason in found) for start in bad)
        assert report["first"] == f"line {8 + split.header + 1} has {next(iter(bad))}"
        kept = 8 if split.labelled else 8 + len(bad)
        assert report["kept"] == kept
        assert report["read"] == 8 + len(bad)
        for side in range(len(task.texts)):
            assert len(items(made_of_bad_rows / name / f"input{side}", split.name)) == kept


def test_microsofts_files(prepared, tmp_path, capsys):
    download = tmp_path / "download/MRPC"
    download.mkdir(parents=True)
    head = "\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\n"
    body = "".join(f"{i % 2}\t{i}\t{i + 1}\tAnna sees {i} .\tBob sees {i} .\n" for i in range(6))
    (download / "msr_paraphrase_train.txt").write_text(head + body)
    (download / "msr_paraphrase_test.txt").write_text(head + body)
    (download / "dev_ids.tsv").write_text("1\t2\n4\t5\n")
    arguments = ["prepare-glue", str(tmp_path / "download"), str(prepared), str(tmp_path / "out"), "--partial"]
    assert main(arguments) == 0
    assert "MRPC   valid  6 rows read, 2 kept, 4 of another split" in capsys.readouterr().out
    assert items(tmp_path / "out/MRPC/label", "valid") == ["1", "0"]
    assert len(items(tmp_path / "out/MRPC/label", "train")) == 4
    assert len(items(tmp_path / "out/MRPC/input1", "test")) == 6


def test_what_is_done_is_kept_and_what_changed_is_done_anew(download, prepared, tmp_path, capsys):
    copy = shutil.copytree(download, tmp_path / "download")
    arguments = ["prepare-glue", str(copy), str(prepared), str(tmp_path / "out"), "CoLA", "WNLI", "--partial"]
    assert main(arguments) == 0
    before = {name: (tmp_path / "out" / name).stat().st_ino for name in ("CoLA", "WNLI")}
    said = capsys.readouterr().out
    with (copy / "CoLA/dev.tsv").open("a") as file:
        file.write("\ngj04\t1\t\tone more")
    assert main(arguments) == 0
    warning = "warning: the valid data are the training data: scores on them say nothing of other texts\n"
    changed = said.replace("CoLA   valid  8 rows read, 8 kept", "CoLA   valid  9 rows read, 9 kept")
    assert capsys.readouterr().out == changed.replace(warning, "", 1) != changed
    assert (tmp_path / "out/WNLI").stat().st_ino == before["WNLI"]
    assert (tmp_path / "out/CoLA").stat().st_ino != before["CoLA"]


def test_a_failure_leaves_nothing(download, prepared, tmp_path, capsys):
    copy = shutil.copytree(download, tmp_path / "download")
    (copy / "RTE/dev.tsv").write_text("index\tsentence1\tsentence2\tlabel\n0\ta\tb\tmaybe\n")
    assert main(["prepare-glue", str(copy), str(prepared), str(tmp_path / "out"), "RTE", "--partial"]) == 1
    assert (
        "dev.tsv is no valid file of RTE: 1 of its 1 rows are malformed; line 2 has the label"
        in capsys.readouterr().err
    )
    assert not (tmp_path / "out").exists()


def test_what_others_made_stays(download, prepared, tmp_path, capsys):
    copy = shutil.copytree(download, tmp_path / "download")
    assert main(["prepare-glue", str(download), str(prepared), str(copy), "RTE", "--partial"]) == 1
    assert "RTE is there, but not made by this command" in capsys.readouterr().err
    assert (copy / "RTE/dev.tsv").is_file()


def test_absent_tasks_are_named(download, prepared, tmp_path, capsys):
    shutil.copytree(download / "CoLA", tmp_path / "part/CoLA")
    assert main(["prepare-glue", str(tmp_path / "part"), str(prepared), str(tmp_path / "out"), "--partial"]) == 0
    said = capsys.readouterr().out.splitlines()[0]
    assert said == f"not in {tmp_path / 'part'}: {', '.join(name for name in TASKS if name != 'CoLA')}"


def test_the_training_file_as_the_development_file_is_a_warning(download, prepared, tmp_path, capsys):
    shutil.copytree(download / "CoLA", tmp_path / "CoLA")
    shutil.copy(tmp_path / "CoLA/train.tsv", tmp_path / "CoLA/dev.tsv")
    command = ["prepare-glue", tmp_path, prepared, tmp_path / "out", "CoLA", "--partial", "--workers", "1"]
    assert main(list(map(str, command))) == 0
    assert "warning: the valid data are the training data: " in capsys.readouterr().out


def test_a_missing_task_is_told_before_another_is_prepared(download, prepared, tmp_path, capsys):
    shutil.copytree(download / "CoLA", tmp_path / "CoLA")
    command = ["prepare-glue", tmp_path, prepared, tmp_path / "out", "CoLA", "RTE", "--partial", "--workers", "1"]
    assert main(list(map(str, command))) == 1
    assert f"there is no {tmp_path}/RTE/train.tsv, the train file of RTE" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_what_is_wrong_is_told(download, prepared, tmp_path, capsys):
    def fails(*arguments):
        assert main(["prepare-glue", *map(str, arguments)]) == 1
        return capsys.readouterr().err

    out = tmp_path / "out"
    assert "no GLUE task 'cola': the tasks are CoLA, " in fails(download, prepared, out, "cola")
    assert "is a file, but OUT is a folder" in fails(download, prepared, download / "CoLA/dev.tsv", "CoLA")
    assert "has no GLUE task in it" in fails(tmp_path, prepared, out)
    assert "there is no" in fails(download, tmp_path, out)
    assert "train.tsv, the train file of QNLI" in fails(tmp_path, prepared, out, "QNLI")
    assert "has 8 rows and ends at line 8, but the published file has 8551" in fails(download, prepared, out, "CoLA")


@pytest.mark.parametrize("make", [os.mkfifo, Path.mkdir, lambda path: path.symlink_to(path.name)])
def test_a_test_file_that_is_none_is_refused(make, download, prepared, tmp_path, capsys):
    """It may be absent, but then there is nothing in its place."""
    copy = shutil.copytree(download / "CoLA", tmp_path / "download/CoLA")
    (copy / "test.tsv").unlink()
    arguments = ["prepare-glue", str(copy.parent), str(prepared), str(tmp_path / "out"), "CoLA", "--partial"]
    make(copy / "test.tsv")
    assert main(arguments) == 1
    assert f"{copy / 'test.tsv'}, the test file of CoLA, is a folder, a pipe or a" in capsys.readouterr().err
    (copy / "test.tsv").rmdir() if (copy / "test.tsv").is_dir() else (copy / "test.tsv").unlink()
    assert main(arguments) == 0
    assert not list((tmp_path / "out/CoLA/input0").glob("test.*"))


def test_sizes_are_checked_always_and_checksums_when_asked(download, prepared, tmp_path, capsys):
    arguments = ["prepare-glue", str(download), str(prepared), str(tmp_path / "out"), "RTE", "--partial"]
    assert main(arguments) == 0
    data = tmp_path / "out/RTE/input1/train.bin"
    content = data.read_bytes()
    data.write_bytes(bytes(reversed(content)))
    assert main(arguments) == 0
    assert main([*arguments, "--verify"]) == 1
    assert f"{data} is not the one that tupe prepare-glue wrote: remove" in capsys.readouterr().err
    data.write_bytes(content[:-2])
    assert main(arguments) == 1
    assert f"{data} has {len(content) - 2:,} bytes, not the {len(content):,}" in capsys.readouterr().err
    data.with_name("dict.txt").unlink()
    (tmp_path / "out/RTE/manifest.json").write_text("{")
    assert main(arguments) == 1
    assert "manifest.json is not what tupe prepare-glue writes" in capsys.readouterr().err


def test_one_process_at_a_time_and_others_data_stays(download, prepared, tmp_path, capsys):
    out = tmp_path / "out"
    (out / "by-hand").mkdir(parents=True)
    arguments = ["prepare-glue", str(download), str(prepared), str(out), "RTE", "--partial", "--workers", "1"]
    with lock(out / ".tupe.lock"):
        assert main(arguments) == 1
        assert f"another process is working in {out}" in capsys.readouterr().err
    assert main(arguments) == 0
    assert (out / "by-hand").is_dir()


def test_killed_and_started_again(download, prepared, tmp_path):
    arguments = ["prepare-glue", download, prepared, tmp_path / "out", "RTE", "CoLA", "--partial", "--workers", "2"]
    killed = []
    for at in (1, 7, 3, 16, 9):
        killed.append(run_killed(arguments, at, "all"))
        with lock(tmp_path / "out" / LOCK, wait=True):
            pass  # all that it started has ended
    assert killed[:2] == [-9, -9]
    assert main(list(map(str, arguments))) == 0
    assert main([*map(str, arguments), "--verify"]) == 0
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [".tupe.json", ".tupe.lock", "CoLA", "RTE"]
