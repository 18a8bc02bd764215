"""`tupe prepare-task`: what is written is what the files say, and what cannot be read is one sentence."""

import gzip
import json
import os
import sys
from pathlib import Path

import pytest
from fairseq.data import Dictionary
from fairseq.data.indexed_dataset import MMapIndexedDataset

from tests.commands import run
from tests.data.glue.test_prepare import write_task
from tupe.cli.main import main
from tupe.data.corpus.manifest import Manifest
from tupe.data.corpus.tokenizers import SentencePieceTokenizer
from tupe.data.glue.cells import records, sentences
from tupe.data.glue.own import Options, _described, description, own_tasks
from tupe.data.text.stages import TextProcessing
from tupe.errors import UserError
from tupe.experiments.own import task_of
from tupe.files import lock

ROWS = [("Anna sees the house", "good"), ("Bob hears, a red car", "bad"), ('Carl "finds" an apple', "very good")]
EXAMPLES = ROWS * 4


def write(path, rows=EXAMPLES, names=("text", "label")):
    """A file of the format that its ending says."""
    if path.suffix == ".jsonl":
        text = "".join(json.dumps(dict(zip(names, row)), ensure_ascii=False) + "\n" for row in rows)
    elif path.suffix == ".csv":
        quoted = [['"' + str(cell).replace('"', '""') + '"' for cell in row] for row in [names, *rows]]
        text = "".join(",".join(row) + "\r\n" for row in quoted)
    else:
        text = "".join("\t".join(map(str, row)) + "\n" for row in [names, *rows])
    path.write_bytes(text.encode())
    return path


@pytest.fixture
def make(tmp_path, prepared, capsys):
    """Prepares `OUT` of files; returns the exit status and what was said."""

    def made(*arguments, out="own/task"):
        status = main(["prepare-task", *map(str, arguments[:1]), str(prepared), str(tmp_path / out), "--workers", "1",
                       *map(str, arguments[1:])])  # fmt: skip
        said = capsys.readouterr()
        return status, said.out + said.err

    made.folder = tmp_path
    return made


def labels(folder, split):
    dictionary = Dictionary.load(str(folder / "label/dict.txt"))
    return [[dictionary[int(i)] for i in item[:-1]] for item in MMapIndexedDataset(str(folder / "label" / split))]


@pytest.mark.parametrize("ending", ["csv", "tsv", "jsonl"])
def test_a_folder_says_what_the_file_says(ending, make, prepared):
    files = [write(make.folder / f"{name}.{ending}") for name in ("train", "valid")]
    status, said = make(files[0], "--valid", files[1])
    out = make.folder / "own/task"
    assert status == 0, said
    assert "task train  12 rows: bad 4, good 4, very good 4" in said
    corpus = Manifest.load(prepared)
    encode, processing = SentencePieceTokenizer(corpus.model), corpus.text_processing()
    found = [item[:-1].tolist() for item in MMapIndexedDataset(str(out / "input0/train"))]
    assert found == [encode(processing.line(text)) for text, _ in EXAMPLES]
    assert labels(out, "train") == [[label] for _, label in EXAMPLES]
    task = description(out)
    assert (task.name, task.classes, task.scale) == ("task", ("bad", "good", "very good"), None)
    assert own_tasks(out.parent) == ["task"]
    before = (out / "manifest.json").stat().st_mtime_ns
    assert make(files[0], "--valid", files[1], "--verify")[0] == 0
    assert (out / "manifest.json").stat().st_mtime_ns == before  # it was not made again
    write(files[0], ROWS * 5)
    assert "15 rows" in make(files[0], "--valid", files[1])[1]


def test_pairs_other_columns_and_an_order_of_classes(make):
    rows = [(i, "Anna sees", "Bob hears", "no" if i % 2 else "yes") for i in range(8)]
    path = write(make.folder / "a.tsv", rows, ("id", "q", "a", "verdict"))
    test = write(make.folder / "test.tsv", [row[:3] for row in rows], ("id", "q", "a"))
    options = ["--text", "q", "a", "--label", "verdict", "--labels", "yes", "no", "maybe"]
    assert make(path, "--valid", path, "--test", test, *options)[0] == 0
    task = description(make.folder / "own/task")
    assert task.classes == ("yes", "no", "maybe")
    assert [split.labelled for split in task.splits] == [True, True, False]
    assert (make.folder / "own/task/input1/test.bin").is_file()


def test_several_labels(make):
    rows = [("Anna", ["a", "b"]), ("Bob", []), ("Carl", ["b"])] * 4
    path = write(make.folder / "a.jsonl", rows)
    assert make(path, "--valid", path, "--multi-label")[0] == 0
    assert labels(make.folder / "own/task", "train") == [["a", "b"], [], ["b"]] * 4
    cells = write(make.folder / "a.csv", [(text, " | ".join(names)) for text, names in rows])
    assert make(cells, "--valid", path, "--multi-label", "--separator", "|", out="own/other")[0] == 0
    assert labels(make.folder / "own/other", "train") == [["a", "b"], [], ["b"]] * 4


def test_numbers_are_learnt_from_0_to_1(make):
    path = write(make.folder / "a.csv", [("Anna", number) for number in ("-5", "1e1", "+2.5", ".0")])
    assert make(path, "--valid", path, "--regression")[0] == 0
    out = make.folder / "own/task"
    assert [float(line) for line in (out / "label/train.label").read_text().split()] == [0, 1, 0.5, 1 / 3]
    assert (description(out).offset, description(out).scale) == (-5, 15)


def test_rows_of_a_text_are_held_out_together(make):
    rows = [(f"Anna sees the house {i % 50} times", "ab"[i % 2]) for i in range(200)]
    assert make(write(make.folder / "a.csv", rows))[0] == 0
    out = make.folder / "own/task"
    train, valid = ({tuple(item.tolist()) for item in MMapIndexedDataset(str(out / "input0" / split))}
                    for split in ("train", "valid"))  # fmt: skip
    assert train and valid and not train & valid


def test_few_rows_are_held_out_too(make):
    """One row is held out although the hash chooses none of these 30."""
    rows = [(f"the small dog number {i} sees a bird", "ab"[i % 2]) for i in range(30)]
    status, said = make(write(make.folder / "a.csv", rows))
    assert status == 0 and "valid  1 rows" in said
    status, said = make(write(make.folder / "same.csv", [("Anna", "a"), ("Anna", "b")] * 6), out="own/same")
    assert status == 1 and "same.csv has too few different texts (1) to hold some out: give --valid FILE" in said


def test_quotes_tabs_and_packed_files(make):
    quoted = make.folder / "a.tsv"
    quoted.write_text('text\tlabel\n"Anna\tsees\nthe ""house"""\ta\nBob\tb\n' * 1)
    assert make(quoted, "--valid", quoted, "--format", "csv", "--delimiter", "tab")[0] == 0
    assert len(MMapIndexedDataset(str(make.folder / "own/task/input0/train"))) == 2
    packed = make.folder / "b.csv.gz"
    packed.write_bytes(gzip.compress("\ufefftext;label\nAnna;1\nBob;10\nCarl;2\n".encode()))
    assert make(packed, "--valid", packed, "--delimiter", ";", out="own/packed")[0] == 0
    assert description(make.folder / "own/packed").classes == ("1", "2", "10")


GOOD = "text,label\nAnna,a\nBob,b\n"
WRONG = {
    "a column is missing": ("a.csv", "text,stars\nAnna,a\n", [], "has no column 'label' (it has 'text', 'stars')"),
    "a field is missing in JSON": (
        "a.jsonl", '{"text": "A", "label": "a"}\n{"text": "B"}\n', [], "line 2: there is no 'label' (it has 'text'): m"
    ),
    "another separator": ("a.csv", "text;label\nAnna;a\n", [], "which holds all, so that its --format or --delimiter"),
    "no column of texts": ("a.csv", "title,label\nAnna,a\n", [], "has no column 'text', nor 'text1' and 'text2'"),
    "a name twice": ("a.csv", "text,label,label\nAnna,a,b\n", [], "line 1: two columns are called 'label'"),
    "a name twice in JSON": ("a.jsonl", '{"text": "a", "text": "b"}\n', [], "line 1: 'text' is there twice"),
    "a ragged line": ("a.tsv", "text\tlabel\nAnna\ta\nBob\n", [], "line 3: there are 1 cells, but the first line"),
    "a quote in a TSV": ("a.tsv", 'text\tlabel\n"Anna\tBob"\ta\n', [], "--format csv --delimiter tab reads it"),
    "columns in quotes in a TSV": ("a.tsv", '"text"\t"label"\n"A"\t"a"\n', [], "give --format csv --delimiter tab"),
    "an open quote": ("a.csv", 'text,label\nBob,b\n"Anna,a\n', [], "line 3: no row of a CSV begins there"),
    "an empty text": ("a.csv", "text,label\nAnna,a\n ,b\n", [], "line 3: there is no text in 'text'"),
    "a text of spaces without width": ("a.csv", "text,label\nAnna,a\n\u200b,b\n", [], "line 3: there is no text in"),
    "an empty label": ("a.csv", "text,label\nAnna,a\nBob,\n", [], "line 3: there is no label"),
    "an empty row of one column": (
        "a.tsv", "text\nAnna\n\nBob\n", ["--label", "stars"], "line 3 is empty, but a row of the one column"
    ),
    "a row of one column before the first": ("a.csv", "text\n\nAnna\n", [], "line 2 is empty, but a row of the one"),
    "an odd label": ("a.csv", 'text,label\nAnna,a\nBob,"x\ny"\n', [], "cannot be the name of a class"),
    "a special symbol": ("a.csv", "text,label\nAnna,a\nBob,<pad>\n", [], "'<pad>' cannot be the name of a class"),
    "one class": ("a.csv", "text,label\nAnna,a\nBob,a\n", [], "only the label 'a'"),
    "numbers as classes": (
        "a.csv", "text,label\n" + "".join(f"Anna,{i}.5\n" for i in range(201)), [], "201 different labels in 201 rows"
    ),
    "no number": ("a.csv", "text,label\nAnna,1\nBob,1_0\n", ["--regression"], "line 3: the label is '1_0', but --reg"),
    "infinite": ("a.csv", "text,label\nAnna,1\nBob,1e999\n", ["--regression"], "line 3: the label is '1e999'"),
    "one number": ("a.csv", "text,label\nAnna,1\nBob,1\n", ["--regression"], "the label 1 in all its training rows"),
    "types": (
        "a.jsonl", '{"text": "A", "label": "a"}\n{"text": "B", "label": 1}\n', [],
        "line 2: the label '1' is of another type than 'a' of line 1",
    ),
    "a list": ("a.jsonl", '{"text": "A", "label": ["a"]}\n', [], "give --multi-label if a text has several"),
    "a fraction": ("a.jsonl", '{"text": "A", "label": 1.5}\n', [], "which is no name: write one, or give --regression"),
    "no string": ("a.jsonl", '{"text": 1, "label": "a"}\n', [], "'text' is '1', but a text is a string"),
    "half a character": ("a.jsonl", '{"text": "A\\ud800", "label": "a"}\n', [], "a string of whole characters"),
    "no JSON": ("a.jsonl", '{"text": "A", "label": "a"}\n{"text"\n', [], "line 2: there is no JSON"),
    "an array": ("a.json", '[{"text": "A", "label": "a"}]\n', [], "line 1: there is no object {...}"),
    "deep JSON": ("a.jsonl", "[" * 100_000 + "\n", [], "line 1: there is no JSON"),
    "Latin-1": ("a.csv", "text,label\nAnna,a\nRené,b\n".encode("latin-1"), [], "line 3: byte 4 (0xe9) is not UTF-8"),
    "UTF-16": ("a.csv", GOOD.encode("utf-16"), [], "is UTF-16: convert it to UTF-8 first"),
    "a workbook": ("a.csv", b"PK\x03\x04" + GOOD.encode(), [], "an archive, a workbook or of a word processor"),
    "no empty lines": ("a.conll", "Anna\tB-PER\nsees\tO\n" * 101, [], "is one sentence of 202 words: put an empty"),
    "a huge cell": ("a.csv", f"text,label\nAnna,a\n{'x' * 1_000_001},b\n", [], "line 3: "),
    "a huge text": ("a.tsv", f"text\tlabel\nAnna\ta\n{'x' * 1_000_001}\tb\n", [], "1,000,001 characters, more than"),
    "empty": ("a.csv", "", [], "is empty: its first line should name the columns"),
    "a header alone": ("a.csv", "text,label\n", [], "has no rows in it"),
    "no file": ("a.csv", None, [], "there is no file"),
    "damaged": ("a.csv.gz", gzip.compress(GOOD.encode())[:-9], [], "cannot be read"),
    "no ending": ("a.data", GOOD, [], "does not say what it is by its name"),
    "three texts": ("a.csv", GOOD, ["--text", "a", "b", "c"], "--text names 3 columns"),
    "a column twice": ("a.csv", GOOD, ["--text", "label"], "is both text and label"),
    "a text twice": ("a.csv", GOOD, ["--text", "text", "text"], "names a column twice"),
    "a text as its label": ("a.csv", GOOD, ["--label", "text"], "is both text and label"),
    "a class in two forms": ("a.csv", "text,label\nAnna,é\nBen,e\u0301\n", [], "look the same, but are other"),
    "lines that end with CR": ("a.tsv", "text\tlabel\rAnna\ta\rBen\tb\r", [], "lines that end with CR alone"),
    "a class twice": ("a.csv", GOOD, ["--labels", "a", "b", "a"], "--labels names a class twice"),
    "a class that is not named": ("a.csv", GOOD, ["--labels", "a", "c"], "'b' is none of the 2 that --labels"),
    "a long separator": ("a.csv", GOOD, ["--delimiter", "::"], "not one sign such as a comma"),
    "a delimiter of a TSV": ("a.tsv", "text\tlabel\nA\ta\nB\tb\n", ["--delimiter", ";"], "--delimiter is for a CSV"),
    "columns": ("a.conll", "a\tO\n", ["--columns", "1;2"], "give two numbers from 1, such as 1,2"),
    "too few columns": ("a.conll", "a\tO\n", ["--columns", "1,4"], "has 2 column(s), but --columns asks for 1 and 4"),
    "ragged words": ("a.conll", "Anna\tB-PER\nsees\n", [], "line 2: there are 1 columns, but 2 before"),
    "several labels of a word": ("a.conll", "Anna\tA\n", ["--multi-label"], "--multi-label is for files of texts"),
    "numbers of words": ("a.conll", "Anna\t1\n", ["--regression"], "--regression is for files of texts"),
    "a column of texts of words": ("a.conll", "Anna\tA\n", ["--text", "a"], "--text is for files of texts"),
    "columns of texts": ("a.csv", GOOD, ["--columns", "1,2"], "--columns is for files of words"),
    "a name with the separator": (
        "a.jsonl", '{"text": "A", "label": ["a"]}\n{"text": "B", "label": ["a,b"]}\n', ["--multi-label"],
        "line 2: the label 'a,b' has the separator ',' in it"
    ),
    "a class with the separator": (
        "a.csv", GOOD, ["--multi-label", "--separator", "|", "--labels", "a", "b", "a|b"],
        "--labels: the label 'a|b' has the separator '|' in it"
    ),
    "words without labels": ("a.conll", "Anna\nsees\n", [], "words in one column and no labels"),
    "no words": ("a.conll", "\n\n", [], "has no words in it"),
    "an empty label of a word": ("a.conll", "Anna\tO\n\nBob\tB-PER\nsees\t\n", [], "line 3: there is no label"),
    "ranges of words alone": ("a.conll", "1-2\tDon't" + "\t_" * 8 + "\n", [], "has no words in it"),
    "too many labels of words": (
        "a.conll", "".join(f"w\tL{i}\n\n" for i in range(10_001)), [], "give --columns for those of the words"
    ),
    "words and labels in one column": ("a.conll", "Anna\tB-PER\n", ["--columns", "1,1"], "stand in two: give both"),
    "a column of labels of words": ("a.conll", "Anna\tA\n", ["--label", "a"], "--label is for files of texts"),
    "two files in one": ("a.csv", GOOD + "\ufeff" + GOOD, [], "line 4: the names of the columns are there again"),
    "lists in a list": (
        "a.jsonl", '{"text": "A", "label": [["a"]]}\n', ["--multi-label"], "line 1: the label '[\"a\"]' is a list"
    ),
    "an object": ("a.jsonl", '{"text": "A", "label": {}}\n', [], "is no name: write one, or give --regression"),
    "numbers beyond float32": ("a.csv", "text,label\nAnna,-1e308\nBob,1e308\n", ["--regression"], "at most 1e+19"),
    "numbers next to each other": (
        "a.csv", "text,label\nAnna,1e-300\nBob,2e-300\n", ["--regression"], "nothing to tell apart"
    ),
    "classes of numbers": ("a.csv", GOOD, ["--regression", "--labels", "a", "b"], "--labels names classes, but"),
    "a separator of one label": ("a.csv", GOOD, ["--separator", ";"], "--separator is for --multi-label"),
    "one class that is named": ("a.csv", "text,label\nAnna,a\n", ["--labels", "a"], "name all, as in --labels A B"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_one_sentence(case, make):
    name, content, options, expected = WRONG[case]
    path = make.folder / name
    if content is not None:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    status, said = make(path, "--valid", path, *options)
    assert status == 1 and expected in said and said.count("\n") == 1 and said.startswith("error: "), said
    assert not (make.folder / "own").exists()


def test_a_label_that_training_lacks(make):
    train, valid = write(make.folder / "a.csv"), write(make.folder / "b.csv", [*ROWS, ("Dora", "ugly")])
    status, said = make(train, "--valid", valid)
    assert status == 1 and "b.csv, line 5: the label 'ugly' is none of the 3 that the training rows have" in said
    assert "--regression" not in said
    write(valid, [*ROWS, ("Dora", "2.5")])
    assert "or give --regression if they are numbers" in make(train, "--valid", valid)[1]


@pytest.mark.parametrize("name", ["CoLA", "a b", ".hidden"])
def test_names_that_no_task_can_have(name, make):
    status, said = make(write(make.folder / "a.csv"), out=f"own/{name}")
    assert status == 1 and "choose another name for OUT" in said


def test_the_place_of_something_else_is_left(make):
    out = make.folder / "own/task"
    out.mkdir(parents=True)
    (out / "letter.txt").write_text("mine")
    status, said = make(write(make.folder / "a.csv"))
    assert status == 1 and "choose another folder" in said and (out / "letter.txt").read_text() == "mine"


def test_a_task_of_glue_under_another_name_is_left(make, prepared):
    write_task(make.folder / "download", "CoLA")
    command = ["prepare-glue", str(make.folder / "download"), str(prepared), str(make.folder / "glue"), "CoLA"]
    assert main([*command, "--partial", "--workers", "1"]) == 0
    (make.folder / "own").mkdir()
    (make.folder / "glue/CoLA").rename(make.folder / "own/task")
    before = (make.folder / "own/task/manifest.json").read_bytes()
    status, said = make(write(make.folder / "a.csv"))
    assert status == 1 and "was not made by tupe prepare-task: choose another folder for OUT" in said
    assert (make.folder / "own/task/manifest.json").read_bytes() == before


def test_a_class_that_no_row_has_is_a_warning(make):
    path = write(make.folder / "a.csv")
    said = make(path, "--valid", path, "--labels", "good", "very good", "bad", "badd")[1]
    assert "warning: no training row has badd, which --labels names" in said


def test_the_training_file_as_the_test_file_is_a_warning(make):
    path = write(make.folder / "a.csv")
    other = write(make.folder / "b.csv", ROWS)
    warning = "warning: the test data are the training data: scores on them say nothing of other texts"
    for test in (path, other):
        status, said = make(path, "--valid", other, "--test", test, out=f"own/{test.stem}")
        assert status == 0 and (warning in said) == (test == path), said


def test_one_process_at_a_time(make):
    path = write(make.folder / "a.csv")
    with lock(make.folder / "own/.task.lock"):
        status, said = make(path, "--valid", path)
        assert status == 1 and "another process is preparing" in said and "wait for it to end" in said
        assert not (make.folder / "own/task").exists()
    assert make(path, "--valid", path)[0] == 0
    assert [path.name for path in (make.folder / "own").iterdir()] == ["task"]


def test_texts_are_read_as_they_are(tmp_path):
    text = "Anna\u00a0sees\tthe  house"
    path = write(tmp_path / "a.jsonl", [(f"  {text}\n", "a"), ("Bob\r\nhears", "b")])
    _, rows = _described("task", {"train": path, "valid": path}, Options())
    processing = TextProcessing(["keep-white-space"], "en")
    assert [processing.line(*row.texts) for row in rows["train"]] == [text, "Bob hears"]


def test_empty_lines_that_are_no_rows(tmp_path):
    for name, text, expected in (
        ("a.tsv", "text\nAnna\nBob\n\n\n", [2, 3]),
        ("a.csv", 'text\nAnna\n""\nBob\n\n', [2, 3, 4]),
        ("b.csv", "text,label\nAnna,a\n\nBob,b\n", [2, 4]),
    ):
        (tmp_path / name).write_text(text)
        assert [record.line for record in records(tmp_path / name, name[2:])] == expected


def test_words_are_written_as_utf_8_in_any_locale(prepared, tmp_path):
    path = tmp_path / "a.conll"
    path.write_bytes("René\tB-PER\nsees\tO\n".encode())
    command = ["prepare-task", path, prepared, tmp_path / "task", "--valid", path, "--workers", "1"]
    run(sys.executable, "-m", "tupe", *command, LC_ALL="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0")
    assert (tmp_path / "task/label/valid.words").read_bytes() == "René\nsees\n\n".encode()


def test_a_task_of_words_is_called_as_its_folder(make):
    path = make.folder / "a.conll"
    path.write_text("Anna\tB-PER\nsees\tO\n")
    status, said = make(path, "--valid", path)
    assert status == 0 and said.startswith("task train  1 sentences")


def test_damaged_data_are_found(make):
    path = write(make.folder / "a.csv")
    assert make(path, "--valid", path)[0] == 0
    data = make.folder / "own/task/input0/train.bin"
    data.write_bytes(data.read_bytes()[:-2])
    status, said = make(path, "--valid", path)
    assert status == 1 and "train.bin" in said


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("--labels", ["very good", "good", "bad"], "labels = [], not ['very good', 'good', 'bad']"),
        ("--multi-label", [], "kind = class, not multi-label"),
    ],
)
def test_what_was_made_with_other_options_is_left(option, value, said, make):
    path, test = write(make.folder / "a.csv"), write(make.folder / "b.csv")
    assert make(path, "--valid", path, "--test", test)[0] == 0
    out = make.folder / "own/task"
    before = (out / "manifest.json").read_bytes()
    status, found = make(path, "--valid", path, "--test", test, option, *value)
    assert status == 1 and f"{out} was made with {said}: give the options that it" in found
    status, found = make(path, "--valid", path)
    assert status == 1 and f"{out} was made with test = b.csv, not unset: " in found
    assert (out / "manifest.json").read_bytes() == before
    assert make(path, "--valid", path, "--test", path)[0] == 0  # new texts


@pytest.mark.parametrize("classes", [["very good", "good", "bad"], ["bad"], []])
def test_classes_that_are_not_those_of_the_labels(classes, make):
    path = write(make.folder / "a.csv")
    assert make(path, "--valid", path)[0] == 0
    manifest = make.folder / "own/task/manifest.json"
    content = json.loads(manifest.read_text())
    content["description"]["classes"] = classes
    manifest.write_text(json.dumps(content))
    said = (
        rf"manifest.json has the classes {', '.join(classes) or 'none'}, but \S+/label/dict.txt bad, good, very good: "
    )
    with pytest.raises(UserError, match=said):
        description(manifest.parent)
    with pytest.raises(UserError, match=said):
        task_of("task", manifest.parent)


def test_a_task_that_is_called_as_one_of_glue(make):
    path = write(make.folder / "a.csv")
    assert make(path, "--valid", path)[0] == 0
    folder = (make.folder / "own/task").rename(make.folder / "own/CoLA")
    for data in (folder, folder.parent):
        with pytest.raises(UserError, match=r"own/CoLA is a task of your own, but CoLA is one of GLUE"):
            task_of("CoLA", data)


CONLLU = """# sent_id = 1
1-2\tDon't\t_\t_\t_\t_\t_\t_\t_\t_
1\tDo\tdo\tAUX\t_\t_\t_\t_\t_\t_
2\tn't\tnot\tPART\t_\t_\t_\t_\t_\t_
2.1\tgo\tgo\tVERB\t_\t_\t_\t_\t_\t_
3\t#\t#\tSYM\t_\t_\t_\t_\t_\t_
"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("#photo\tO\nAnna\tB-PER\n\t\n\n  \nBob\tO", [(("#photo", "Anna"), ("O", "B-PER")), (("Bob",), ("O",))]),
        ("-DOCSTART- -X- O\n\n# x O\nAnna NNP B-PER\r\n", [(("#", "Anna"), ("O", "B-PER"))]),
        (CONLLU, [(("Do", "n't", "#"), ("AUX", "PART", "SYM"))]),
        ("10 000\tNUM\n", [(("10 000",), ("NUM",))]),
        ("Anna\nsees\n", [(("Anna", "sees"), None)]),
    ],
)
def test_columns_of_words(text, expected, tmp_path):
    (tmp_path / "a.conll").write_bytes(text.encode())
    assert [(one.texts, one.label) for one in sentences(tmp_path / "a.conll")] == expected


@pytest.mark.skipif(
    "TUPE_GLUE_DIR" not in os.environ, reason="TUPE_GLUE_DIR, the folder of a GLUE download, is not set"
)
def test_a_task_of_glue_as_ones_own(make, prepared):
    download = Path(os.environ["TUPE_GLUE_DIR"])
    files = [download / f"SST-2/{name}.tsv" for name in ("train", "dev", "test")]
    assert make(files[0], "--valid", files[1], "--test", files[2], "--text", "sentence")[0] == 0
    glue = make.folder / "glue"
    assert main(["prepare-glue", str(download), str(prepared), str(glue), "SST-2", "--partial", "--workers", "1"]) == 0
    for name in ("input0/train.bin", "input0/valid.bin", "input0/test.bin", "label/train.bin", "label/dict.txt"):
        assert (glue / "SST-2" / name).read_bytes() == (make.folder / "own/task" / name).read_bytes()


@pytest.mark.skipif("TUPE_WORDS_DIR" not in os.environ, reason="TUPE_WORDS_DIR, with wnut17.train.conll, is not set")
def test_real_words(make):
    path = Path(os.environ["TUPE_WORDS_DIR"], "wnut17.train.conll")
    status, said = make(path, "--valid", path)
    assert status == 0 and "task train  3,394 sentences: B-corporation 221, B-creative-work 140" in said
