"""Read the rows of GLUE's files: columns between tabs, without quoting; and the rows that describe tasks."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from tupe.data.glue.tasks import TASKS, Split, Task
from tupe.util import UserError, read_json

MANIFEST = "manifest.json"  # in the folder of a prepared task
_BOM = b"\xef\xbb\xbf"
# A file with more malformed rows than this number and this share is another file; so is one with too few rows.
_MALFORMED, _MALFORMED_SHARE = 10, 0.01
_FEWEST, _MOST = 0.9, 1.1


@dataclass(frozen=True)
class Row:
    """A row: its one or two texts, and its label for training: a class, or a score in [0, 1]."""

    texts: tuple[str, ...]
    label: str | None


@dataclass
class Report:
    """Counts of what became of the rows of a file: `read` is `kept`, `other_split` and `dropped`."""

    read: int = 0  # rows in the file, without the header
    kept: int = 0  # rows that were used
    other_split: int = 0  # rows that belong to another split of the task
    dropped: int = 0  # malformed rows
    empty: int = 0  # malformed rows that were kept as empty texts, since predictions need every row


def read_tasks(path: Path, folder: Path) -> dict[str, Task]:
    """Read tasks of one's own from a YAML file (docs/tasks.md); their data files are below `folder`.

    The first line of each data file names its columns. A file without the label's column is a test set to predict.
    """
    rows = yaml.load(path.read_text(encoding="utf-8"), yaml.BaseLoader)  # which reads each value as text: no, 1, 2.50
    return {name: _described(name, folder, **row) for name, row in rows.items()}


def _described(
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
            columns = _fields(lines.readline())
        splits.append(Split(split, (file,), tuple(columns), rows=0, labelled=label in columns))
    return Task(name, tuple(splits), tuple(texts), label, tuple(classes), scale=float(scale) if scale else None)


def prepared_task(folder: Path) -> Task:
    """Return the row of a prepared task: that of GLUE's table with the folder's name, else that of its manifest."""
    name = folder.resolve().name
    if name in TASKS:
        return TASKS[name]
    row = read_json(folder / MANIFEST)["task"]
    return Task(**{**row, "splits": tuple(Split(**split) for split in row["splits"])})


def own_tasks(folder: Path) -> list[str]:
    """Return the names of the tasks of one's own that are prepared in a folder."""
    names = sorted(path.parent.name for path in folder.glob(f"*/{MANIFEST}"))
    return [name for name in names if name not in TASKS]


def rows(path: Path, task: Task, split: Split, report: Report, partial: bool = False) -> Iterator[Row]:
    """Yield the rows of a file that can be used; every row of a file without labels. Count them in `report`.

    With `partial` a number of rows that is far from the published one is accepted.

    Raises:
        UserError: if columns, labels or the number of rows are not those of the split.
    """
    listed = _listed(path.with_name("dev_ids.tsv")) if split.listed is not None else set()
    with path.open("rb") as file:
        if split.header and (found := _fields(file.readline())) != list(split.columns):
            raise UserError(f"{path} has the columns {', '.join(found)[:200]}, not {', '.join(split.columns)}.")
        for line in file:
            report.read += 1
            fields = _fields(line)
            if len(fields) != len(split.columns) or (split.labelled and not _has_label(fields, task, split)):
                if split.labelled:
                    report.dropped += 1
                    continue
                report.empty += 1
                report.kept += 1
                yield Row(("",) * len(task.texts), None)
            elif split.listed is not None and (_pair(fields, split) in listed) != split.listed:
                report.other_split += 1
            else:
                report.kept += 1
                yield _row(fields, task, split)
    malformed = report.dropped + report.empty
    if malformed == report.read or malformed > max(_MALFORMED, _MALFORMED_SHARE * report.read):
        raise UserError(
            f"{path} has {malformed:,} rows of {report.read:,} without {len(split.columns)} columns or a label of "
            f"{task.name}. It is another file, or the classes are others."
        )
    if split.rows and not partial and not _FEWEST * split.rows <= report.read <= _MOST * split.rows:
        raise UserError(
            f"{path} has {report.read:,} rows, but the published file has {split.rows:,}. Download it again, or pass "
            "--partial to take it as it is."
        )


def _fields(line: bytes) -> list[str]:
    return line.removeprefix(_BOM).rstrip(b"\r\n").decode("utf-8", errors="surrogateescape").split("\t")


def _has_label(fields: list[str], task: Task, split: Split) -> bool:
    label = _label(fields, task, split)
    return label in task.classes if task.scale is None else 0 <= _score(label) <= task.scale


def _score(label: str) -> float:
    try:
        return float(label)
    except ValueError:
        return math.nan


def _row(fields: list[str], task: Task, split: Split) -> Row:
    texts = tuple(fields[split.columns.index(name)] for name in task.texts)
    if not split.labelled:
        return Row(texts, None)
    label = _label(fields, task, split)
    return Row(texts, label if task.scale is None else repr(float(label) / task.scale))


def _label(fields: list[str], task: Task, split: Split) -> str:
    label = fields[split.columns.index(task.label)]
    return dict(task.synonyms).get(label, label)


def _listed(path: Path) -> set[tuple[str, ...]]:
    """Return the pairs of sentence numbers that MRPC's development set consists of."""
    with path.open("rb") as file:
        return {tuple(_fields(line)) for line in file}


def _pair(fields: list[str], split: Split) -> tuple[str, ...]:
    return tuple(fields[split.columns.index(name)] for name in ("#1 ID", "#2 ID"))
