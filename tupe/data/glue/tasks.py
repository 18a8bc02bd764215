"""Table of the tasks of GLUE and XNLI, and their files; a YAML file adds users' rows (docs/finetuning.md)."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tupe.data.languages import TEST_LANGUAGES
from tupe.data.manifest import NAME as MANIFEST
from tupe.util import read_json


@dataclass(frozen=True)
class Split:
    """One file of a task."""

    # fairseq's: `train`, `valid`, `valid1`, `test`, `test1`; `valid-de`, `test-de` of a language
    name: str
    files: tuple[str, ...]  # possible paths of the file below the GLUE folder
    columns: tuple[str, ...] = ()  # names of the columns, if the file has no header
    labelled: bool = True  # whether labels are read; every row of a file without labels is kept


@dataclass(frozen=True)
class Task:
    name: str  # as in GLUE
    splits: tuple[Split, ...]  # its files
    texts: tuple[str, ...]  # names of the columns that hold the one or two texts
    label: str = "label"  # name of the column that holds the label or score
    classes: tuple[str, ...] = ()  # label names in the order of their numbers; none for a regression task
    scale: float | None = None  # the highest score; a score divided by it is in [0, 1]


def _task(name: str, *texts: str, columns: tuple[str, ...] = (), **others: Any) -> Task:
    """Return a task of three files; only the test set always has a header."""
    splits = (
        Split("train", (f"{name}/train.tsv",), columns),
        Split("valid", (f"{name}/dev.tsv",), columns),
        Split("test", (f"{name}/test.tsv",), labelled=False),
    )
    return Task(name, splits, texts, **others)


def _xnli(name: str, file: str) -> Split:
    """Return a file of XNLI in one language, as XTREME has it; line `n` is the same example in each language."""
    return Split(name, (f"XNLI/{file}.tsv", f"xnli/{file}.tsv"), (*_PAIR, "gold_label"))


_PAIR = ("sentence1", "sentence2")
_MNLI_TRAIN = Split("train", ("MNLI/train.tsv",))
_AX = ("diagnostic/diagnostic.tsv", "AX/diagnostic.tsv", "AX/AX.tsv", "AX/test.tsv", "AX.tsv")
_BINARY = ("0", "1")
_ENTAILMENT = ("not_entailment", "entailment")
_INFERENCE = ("contradiction", "neutral", "entailment")

_TASKS = (
    _task("CoLA", "sentence", columns=("source", "label", "mark", "sentence"), classes=_BINARY),
    _task("SST-2", "sentence", classes=_BINARY),
    _task("MRPC", "#1 String", "#2 String", label="Quality", classes=_BINARY),
    _task("STS-B", *_PAIR, label="score", scale=5.0),
    _task("QQP", "question1", "question2", label="is_duplicate", classes=_BINARY),
    Task(
        "MNLI",
        (
            _MNLI_TRAIN,
            Split("valid", ("MNLI/dev_matched.tsv",)),
            Split("valid1", ("MNLI/dev_mismatched.tsv",)),
            Split("test", ("MNLI/test_matched.tsv",), labelled=False),
            Split("test1", ("MNLI/test_mismatched.tsv",), labelled=False),
        ),
        _PAIR,
        "gold_label",
        _INFERENCE,
    ),
    _task("QNLI", "question", "sentence", classes=_ENTAILMENT),
    _task("RTE", *_PAIR, classes=_ENTAILMENT),
    _task("WNLI", *_PAIR, classes=_BINARY),
    # predicted by a model fine-tuned on MNLI
    Task("AX", (Split("test", _AX, labelled=False),), _PAIR, classes=_INFERENCE),
    Task(  # MNLI's training data, tested in 15 languages
        "XNLI",
        (
            _MNLI_TRAIN,
            _xnli("valid", "dev-en"),
            *(_xnli(f"valid-{language}", f"dev-{language}") for language in TEST_LANGUAGES["XNLI"]),
            *(_xnli(f"test-{language}", f"test-{language}") for language in TEST_LANGUAGES["XNLI"]),
        ),
        _PAIR,
        "gold_label",
        _INFERENCE,
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
    rows = yaml.load(path.read_text(encoding="utf-8"), yaml.BaseLoader)  # reads every value as text: no, 1, 2.50
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
    assert len(texts) < 3, f"{name} has {len(texts)} texts: a model reads one or two"
    splits = []
    for split, file in files.items():
        with (folder / file).open("rb") as lines:
            columns = fields_of(lines.readline())
        splits.append(Split(split, (file,), labelled=label in columns or split in ("train", "valid")))
    return Task(name, tuple(splits), tuple(texts), label, tuple(classes), scale=float(scale) if scale else None)


def prepared_task(folder: Path) -> Task:
    """Return the row of a prepared task: from its manifest, or without one from GLUE's table by the folder's name."""
    if not (folder / MANIFEST).is_file():  # prepared by fairseq's own tools
        return TASKS[folder.resolve().name]
    row = read_json(folder / MANIFEST)["task"]
    splits = tuple(Split(split["name"], (), labelled=split["labelled"]) for split in row["splits"])
    return Task(row["name"], splits, tuple(row["texts"]), row["label"], tuple(row["classes"]), row["scale"])


def training_file(folder: str | None) -> str | None:
    """Return the training file of the GLUE task that a folder is named after; MNLI and XNLI share one, AX has none."""
    row = TASKS.get(Path(folder).resolve().name) if folder else None
    return next((split.files[0] for split in row.splits if split.name == "train"), None) if row else None


def own_tasks(folder: Path) -> list[str]:
    """Return the names of the user's tasks that are prepared in a folder."""
    names = sorted(path.parent.name for path in folder.glob(f"*/{MANIFEST}") if "task" in read_json(path))
    return [name for name in names if name not in TASKS]
