"""Table of the tasks of GLUE and XNLI, and their files; a YAML file adds users' rows (docs/finetuning.md)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from tupe.data.languages import TEST_LANGUAGES
from tupe.data.manifest import NAME as MANIFEST
from tupe.data.manifest import inside
from tupe.util import read_json


@dataclass(frozen=True)
class Split:
    """One file of a task."""

    # fairseq's: `train`, `valid`, `valid1`, `test`, `test1`; `valid-de`, `test-de` of a language
    name: str
    files: tuple[str, ...]  # where the file may be below the GLUE folder
    columns: tuple[str, ...]  # their names, which the first line must have if the file has a header
    rows: int  # of the published file; 0 if none is published
    header: bool = True  # whether the first line names the columns
    labelled: bool = True  # whether labels are read; every row of a file without labels is kept


@dataclass(frozen=True)
class Task:
    name: str  # as in GLUE
    splits: tuple[Split, ...]  # its files
    texts: tuple[str, ...]  # names of the columns that hold the one or two texts
    label: str = "label"  # name of the column that holds the label or score
    classes: tuple[str, ...] = ()  # label names in the order of their numbers; none for a regression task
    synonyms: tuple[tuple[str, str], ...] = ()  # label names that mean one of the classes
    scale: float | None = None  # the highest score; a score divided by it is in [0, 1]


def _split(name: str, files: str, columns: str, rows: int = 0, header: bool = True, labelled: bool = True) -> Split:
    """Return a file of a task; `files` and `columns` are separated by bars."""
    return Split(name, tuple(files.split("|")), tuple(columns.split("|")), rows, header, labelled)


def _task(
    name: str,
    labelled: str,
    test: str,
    rows: tuple[int, int, int],
    texts: str,
    label: str = "label",
    classes: tuple[str, ...] = (),
    scale: float | None = None,
    header: bool = True,
) -> Task:
    """Return a task of three files; only the test set has other columns, and always a header."""
    splits = (
        _split("train", f"{name}/train.tsv", labelled, rows[0], header),
        _split("valid", f"{name}/dev.tsv", labelled, rows[1], header),
        _split("test", f"{name}/test.tsv", test, rows[2], labelled=False),
    )
    return Task(name, splits, tuple(texts.split("|")), label, classes, scale=scale)


def _languages(name: str, kind: str, rows: int) -> Iterator[Split]:
    """Yield a file of XNLI for each language, as XTREME lays them out; line `n` is the same example in each."""
    for language in TEST_LANGUAGES["XNLI"]:
        yield _split(f"{name}-{language}", _xnli(f"{kind}-{language}"), _XNLI, rows, header=False)


def _xnli(file: str) -> str:
    return f"XNLI/{file}.tsv|xnli/{file}.tsv"


_XNLI = "sentence1|sentence2|gold_label"
_PAIR = "sentence1|sentence2"
_MRPC = "#1 ID|#2 ID|#1 String|#2 String"
_STS = f"index|genre|filename|year|old_index|source1|source2|{_PAIR}"
_QQP = "question1|question2"
_MNLI = (
    f"index|promptID|pairID|genre|sentence1_binary_parse|sentence2_binary_parse|sentence1_parse|sentence2_parse|{_PAIR}"
)
_MNLI_TRAIN = _split("train", "MNLI/train.tsv", f"{_MNLI}|label1|gold_label", 392702)
_MNLI_VALID = f"{_MNLI}|label1|label2|label3|label4|label5|gold_label"
_AX = "diagnostic/diagnostic.tsv|AX/diagnostic.tsv|AX/AX.tsv|AX/test.tsv|AX.tsv"
_BINARY = ("0", "1")
_ENTAILMENT = ("not_entailment", "entailment")
_INFERENCE = ("contradiction", "neutral", "entailment")

_TASKS = (
    _task(
        *("CoLA", "source|label|mark|sentence", "index|sentence", (8551, 1043, 1063), "sentence"),
        classes=_BINARY,
        header=False,
    ),
    _task("SST-2", "sentence|label", "index|sentence", (67349, 872, 1821), "sentence", classes=_BINARY),
    _task("MRPC", f"Quality|{_MRPC}", f"index|{_MRPC}", (3668, 408, 1725), "#1 String|#2 String", "Quality", _BINARY),
    _task("STS-B", f"{_STS}|score", _STS, (5749, 1500, 1379), _PAIR, "score", scale=5.0),
    _task(
        *("QQP", f"id|qid1|qid2|{_QQP}|is_duplicate", f"id|{_QQP}", (363846, 40430, 390965), _QQP),
        *("is_duplicate", _BINARY),
    ),
    Task(
        "MNLI",
        (
            _MNLI_TRAIN,
            _split("valid", "MNLI/dev_matched.tsv", _MNLI_VALID, 9815),
            _split("valid1", "MNLI/dev_mismatched.tsv", _MNLI_VALID, 9832),
            _split("test", "MNLI/test_matched.tsv", _MNLI, 9796, labelled=False),
            _split("test1", "MNLI/test_mismatched.tsv", _MNLI, 9847, labelled=False),
        ),
        ("sentence1", "sentence2"),
        "gold_label",
        _INFERENCE,
    ),
    _task(
        *("QNLI", "index|question|sentence|label", "index|question|sentence", (104743, 5463, 5463)),
        *("question|sentence", "label", _ENTAILMENT),
    ),
    _task("RTE", f"index|{_PAIR}|label", f"index|{_PAIR}", (2490, 277, 3000), _PAIR, classes=_ENTAILMENT),
    _task("WNLI", f"index|{_PAIR}|label", f"index|{_PAIR}", (635, 71, 146), _PAIR, classes=_BINARY),
    Task(  # predicted by a model fine-tuned on MNLI
        "AX",
        (_split("test", _AX, f"index|{_PAIR}", 1104, labelled=False),),
        ("sentence1", "sentence2"),
        classes=_INFERENCE,
    ),
    Task(  # MNLI's training data, tested in 15 languages
        "XNLI",
        (
            _MNLI_TRAIN,
            _split("valid", _xnli("dev-en"), _XNLI, 2490, header=False),
            *_languages("valid", "dev", 2490),
            *_languages("test", "test", 5010),
        ),
        ("sentence1", "sentence2"),
        "gold_label",
        _INFERENCE,
        synonyms=(("contradictory", "contradiction"),),  # in translated training data
    ),
)
TASKS = {task.name: task for task in _TASKS}


def fields_of(line: bytes) -> list[str]:
    """Split a line of a file into its columns, which tabs separate, without quoting."""
    return line.removeprefix(b"\xef\xbb\xbf").rstrip(b"\r\n").decode("utf-8", errors="surrogateescape").split("\t")


def read_tasks(path: Path, folder: Path) -> dict[str, Task]:
    """Read a user's tasks from a YAML file; their data files are below `folder`.

    The first line of each data file names its columns. A file without the label's column is a test set to predict.
    """
    rows = yaml.load(path.read_text(encoding="utf-8"), yaml.BaseLoader)  # which reads each value as text: no, 1, 2.50
    return {name: _own_task(name, folder, **row) for name, row in rows.items()}


def _own_task(
    name: str,
    folder: Path,
    texts: list[str],
    label: str = "label",
    classes: Sequence[str] = (),
    scale: str | None = None,
    **files: str,
) -> Task:
    splits = []
    for split, file in files.items():
        with (folder / file).open("rb") as lines:
            columns = fields_of(lines.readline())
        splits.append(Split(split, (file,), tuple(columns), rows=0, labelled=label in columns))
    return Task(name, tuple(splits), tuple(texts), label, tuple(classes), scale=float(scale) if scale else None)


def prepared_task(folder: Path) -> Task:
    """Return the row of a prepared task: that of GLUE's table with the folder's name, else that of its manifest."""
    name = folder.resolve().name
    if name in TASKS:
        return TASKS[name]
    row = read_json(folder / MANIFEST)["task"]
    for named in (row, *row["splits"]):
        inside(folder, named["name"])  # predictions are called by it
    return Task(**{**row, "splits": tuple(Split(**split) for split in row["splits"])})


def training_file(folder: str | None) -> str | None:
    """Return the training file of GLUE's task that a folder is named after; MNLI and XNLI have one, AX has none."""
    row = TASKS.get(Path(folder).resolve().name) if folder else None
    return next((split.files[0] for split in row.splits if split.name == "train"), None) if row else None


def own_tasks(folder: Path) -> list[str]:
    """Return the names of the user's tasks that are prepared in a folder."""
    names = sorted(path.parent.name for path in folder.glob(f"*/{MANIFEST}"))
    return [name for name in names if name not in TASKS]
