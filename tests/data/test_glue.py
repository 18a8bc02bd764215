"""`tupe prepare-glue`: what fairseq's sentence prediction reads is what the GLUE files say."""

import json
import shutil

import pytest
from fairseq.data import Dictionary
from fairseq.data.indexed_dataset import MMapIndexedDataset

from tupe.cli.main import main
from tupe.data.glue.tasks import TASKS, own_tasks, prepared_task
from tupe.data.manifest import Manifest, check_files
from tupe.data.tokenizers import open_tokenizer
from tupe.models.hub import text_processing
from tupe.util import UserError

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
        columns = split.columns or ("index", *task.texts, *[task.label] * split.labelled)
        lines = [] if split.columns else ["\t".join(columns)]
        for row in range(rows):
            values = dict.fromkeys(columns, "-")
            for number, column in enumerate(task.texts):
                values[column] = TEXTS[(row + number) % len(TEXTS)]
            values[task.label] = task.classes[row % len(task.classes)] if task.classes else str(row % 6)
            lines.append("\t".join(values[column] for column in columns))
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
    assert main(["prepare-glue", str(download), str(prepared), str(out), "--workers", "1"]) == 0
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
    processing, encode = text_processing(prepared), open_tokenizer(corpus.model)
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


def test_what_is_done_is_kept_and_what_changed_is_done_anew(download, prepared, tmp_path, capsys):
    copy = shutil.copytree(download, tmp_path / "download")
    arguments = ["prepare-glue", str(copy), str(prepared), "CoLA", "WNLI", str(tmp_path / "out")]
    assert main(arguments) == 0
    before = {name: (tmp_path / "out" / name).stat().st_ino for name in ("CoLA", "WNLI")}
    said = capsys.readouterr().out
    with (copy / "CoLA/dev.tsv").open("a") as file:
        file.write("\ngj04\t1\t\tone more")
    assert main(arguments) == 0
    assert capsys.readouterr().out == said.replace("CoLA   valid  rows: 8 kept", "CoLA   valid  rows: 9 kept") != said
    assert (tmp_path / "out/WNLI").stat().st_ino == before["WNLI"]
    assert (tmp_path / "out/CoLA").stat().st_ino != before["CoLA"]


def test_a_row_that_changed_is_done_anew_and_a_corpus_stays(prepared, tmp_path):
    out, mine = tmp_path / "out", tmp_path / "mine.yaml"
    (tmp_path / "train.tsv").write_text("text\tlabel\nWhy?\tno\nSo.\tyes\n")
    shutil.copytree(prepared, out / "corpus")
    made = ("quiz", "[yes, no]", 0), ("quiz", "[<mask>, no]", 0), ("corpus", "[no, yes]", 1), ("RTE", "[yes, no]", 0)
    for name, classes, status in made:
        mine.write_text(f"{name}: {{train: train.tsv, texts: [text], classes: {classes}}}")
        assert main(["prepare-glue", *map(str, (tmp_path, prepared, name, out)), "--tasks", str(mine)]) == status
    assert Dictionary.load(str(out / "quiz/label/dict.txt")).symbols[4:] == ["<mask>", "no"]
    assert own_tasks(out) == ["quiz"] and Manifest.load(out / "corpus")
    assert prepared_task(out / "RTE").classes == ("yes", "no")  # not GLUE's


def test_labels_of_another_task_are_seen(made, tmp_path):
    copy = shutil.copytree(made / "STS-B", tmp_path / "STS-B")
    check_files(copy)
    (copy / "label/valid.label").write_text("0.5\n" * 8)
    with pytest.raises(UserError, match=r"valid\.label is not the file that was prepared"):
        check_files(copy)


def test_the_languages_of_xnli_that_are_there(prepared, tmp_path, capsys):
    download = tmp_path / "download"
    write_task(download, "XNLI")
    for path in (download / "XNLI").glob("*.tsv"):
        if path.stem not in ("dev-en", "dev-de", "test-de", "test-sw"):
            path.unlink()
    de, sw = (download / f"XNLI/test-{language}.tsv" for language in ("de", "sw"))
    de.write_text("\n".join(line.rpartition("\t")[0] for line in de.read_text().splitlines()))  # as XTREME writes it
    sw.write_text(sw.read_text() + "\na\tb\t-\n")
    assert main(["prepare-glue", str(download), str(prepared), str(tmp_path / "out")]) == 0  # what is there
    assert capsys.readouterr().out.startswith("not in ")
    content = json.loads((tmp_path / "out/XNLI/manifest.json").read_text())
    assert sorted(content["splits"]) == ["test-de", "test-sw", "train", "valid", "valid-de", "valid-en"]
    assert content["splits"]["test-sw"] == {"kept": 8, "dropped": 1} and content["splits"]["test-de"] == {"kept": 8}
