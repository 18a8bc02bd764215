"""Table of the tasks of GLUE and XNLI, and their files; a YAML file adds rows of one's own (docs/finetuning.md)."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from tupe.data.languages import TEST_LANGUAGES
from tupe.util import read_json

MANIFEST = "manifest.json"  # in the folder of a prepared task


@dataclass(frozen=True)
class Split:
    """One file of a task."""

    # fairseq's: `train`, `valid`, `valid1`, `test`, `test1`; `valid-de`, `test-de` of a language
    name: str
    files: tuple[str, ...]  # where the file may be below the GLUE folder
    columns: tuple[str, ...]  # their names, which the first line must say if the file has a header
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


def _splits(
    folder: str, labelled: str, test: str, rows: tuple[int, int, int], header: bool = True
) -> tuple[Split, ...]:
    columns = tuple(labelled.split("|"))
    return (
        Split("train", (f"{folder}/train.tsv",), columns, rows[0], header),
        Split("valid", (f"{folder}/dev.tsv",), columns, rows[1], header),
        Split("test", (f"{folder}/test.tsv",), tuple(test.split("|")), rows[2], labelled=False),
    )


def _languages(name: str, kind: str, rows: int) -> tuple[Split, ...]:
    """Return a file of XNLI for each language, as XTREME lays them out; line `n` is the same example in each."""
    return tuple(
        Split(f"{name}-{language}", _xnli(f"{kind}-{language}"), _XNLI, rows, header=False)
        for language in TEST_LANGUAGES["XNLI"]
    )


def _xnli(file: str) -> tuple[str, ...]:
    return tuple(f"{folder}/{file}.tsv" for folder in ("XNLI", "xnli"))


_XNLI = ("sentence1", "sentence2", "gold_label")
_PAIR = ("sentence1", "sentence2")
_MRPC = "#1 ID|#2 ID|#1 String|#2 String"
_STS = "index|genre|filename|year|old_index|source1|source2|sentence1|sentence2"
_MNLI = (
    "index|promptID|pairID|genre|sentence1_binary_parse|sentence2_binary_parse|sentence1_parse|sentence2_parse"
    "|sentence1|sentence2"
)
_MNLI_TRAIN = tuple(f"{_MNLI}|label1|gold_label".split("|"))
_MNLI_VALID = tuple(f"{_MNLI}|label1|label2|label3|label4|label5|gold_label".split("|"))
_MNLI_TEST = tuple(_MNLI.split("|"))
_BINARY = ("0", "1")
_ENTAILMENT = ("not_entailment", "entailment")
_INFERENCE = ("contradiction", "neutral", "entailment")

_TASKS = (
    Task(
        "CoLA",
        _splits("CoLA", "source|label|mark|sentence", "index|sentence", (8551, 1043, 1063), header=False),
        ("sentence",),
        classes=_BINARY,
    ),
    Task(
        "SST-2",
        _splits("SST-2", "sentence|label", "index|sentence", (67349, 872, 1821)),
        ("sentence",),
        classes=_BINARY,
    ),
    Task(
        "MRPC",
        _splits("MRPC", f"Quality|{_MRPC}", f"index|{_MRPC}", (3668, 408, 1725)),
        ("#1 String", "#2 String"),
        "Quality",
        _BINARY,
    ),
    Task("STS-B", _splits("STS-B", f"{_STS}|score", _STS, (5749, 1500, 1379)), _PAIR, "score", scale=5.0),
    Task(
        "QQP",
        _splits(
            "QQP", "id|qid1|qid2|question1|question2|is_duplicate", "id|question1|question2", (363846, 40430, 390965)
        ),
        ("question1", "question2"),
        "is_duplicate",
        _BINARY,
    ),
    Task(
        "MNLI",
        (
            Split("train", ("MNLI/train.tsv",), _MNLI_TRAIN, 392702),
            Split("valid", ("MNLI/dev_matched.tsv",), _MNLI_VALID, 9815),
            Split("valid1", ("MNLI/dev_mismatched.tsv",), _MNLI_VALID, 9832),
            Split("test", ("MNLI/test_matched.tsv",), _MNLI_TEST, 9796, labelled=False),
            Split("test1", ("MNLI/test_mismatched.tsv",), _MNLI_TEST, 9847, labelled=False),
        ),
        _PAIR,
        "gold_label",
        _INFERENCE,
    ),
    Task(
        "QNLI",
        _splits("QNLI", "index|question|sentence|label", "index|question|sentence", (104743, 5463, 5463)),
        ("question", "sentence"),
        classes=_ENTAILMENT,
    ),
    Task(
        "RTE",
        _splits("RTE", "index|sentence1|sentence2|label", "index|sentence1|sentence2", (2490, 277, 3000)),
        _PAIR,
        classes=_ENTAILMENT,
    ),
    Task(
        "WNLI",
        _splits("WNLI", "index|sentence1|sentence2|label", "index|sentence1|sentence2", (635, 71, 146)),
        _PAIR,
        classes=_BINARY,
    ),
    Task(
        "AX",  # predicted by a model fine-tuned on MNLI
        (
            Split(
                "test",
                ("diagnostic/diagnostic.tsv", "AX/diagnostic.tsv", "AX/AX.tsv", "AX/test.tsv", "AX.tsv"),
                ("index", "sentence1", "sentence2"),
                1104,
                labelled=False,
            ),
        ),
        _PAIR,
        classes=_INFERENCE,
    ),
    Task(
        "XNLI",  # MNLI's training data, tested in 15 languages
        (
            Split("train", ("MNLI/train.tsv",), _MNLI_TRAIN, 392702),
            Split("valid", _xnli("dev-en"), _XNLI, 2490, header=False),
            *_languages("valid", "dev", 2490),
            *_languages("test", "test", 5010),
        ),
        _PAIR,
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
    """Read tasks of one's own from a YAML file; their data files are below `folder`.

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
    return Task(**{**row, "splits": tuple(Split(**split) for split in row["splits"])})


def training_file(folder: str | None) -> str | None:
    """Return the training file of GLUE's task that a folder is named after; MNLI and XNLI have one, AX has none."""
    row = TASKS.get(Path(folder).resolve().name) if folder else None
    return next((split.files[0] for split in row.splits if split.name == "train"), None) if row else None


def own_tasks(folder: Path) -> list[str]:
    """Return the names of the tasks of one's own that are prepared in a folder."""
    names = sorted(path.parent.name for path in folder.glob(f"*/{MANIFEST}"))
    return [name for name in names if name not in TASKS]
