"""Read the rows of a GLUE file: columns between tabs, without quoting. Every row is counted."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from tupe.data.glue.tasks import Split, Task
from tupe.errors import UserError

_BOM = b"\xef\xbb\xbf"
# A file with more malformed rows than this number and this share is another file; so is one with too few rows.
_MALFORMED, _MALFORMED_SHARE = 10, 0.01
_FEWEST, _MOST = 0.9, 1.1


@dataclass(frozen=True)
class Row:
    """A row: its one or two texts, and its label for training: a class, several classes, or a score in [0, 1].

    In a task with a class for every word, the texts are words.
    """

    texts: tuple[str, ...]
    label: str | tuple[str, ...] | None
    line: int = 0  # where it begins in a user's own file, from 1


@dataclass
class Report:
    """Counts of what became of the rows of a file: `read` is `kept`, `other_split` and all that was `dropped`."""

    read: int = 0  # rows in the file, without the header
    kept: int = 0  # rows that were used
    other_split: int = 0  # rows that belong to another split of the task
    dropped: dict[str, int] = field(default_factory=dict)  # malformed rows, by the reason
    # malformed rows, by the reason, that were kept as empty texts, since predictions need every row
    empty: dict[str, int] = field(default_factory=dict)
    first: str = ""  # line and reason of the first malformed row
    labels: dict[str, int] = field(default_factory=dict)  # how often each class occurs, in a user's own task


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


def rows(path: Path, task: Task, split: Split, report: Report, partial: bool = False) -> Iterator[Row]:
    """Yield the rows of a file that can be used; every row of a file without labels. Count them in `report`.

    With `partial` a number of rows that is far from the published one is accepted.

    Raises:
        UserError: if columns, labels or the number of rows are not those of the split.
    """
    listed = _listed(path.with_name("dev_ids.tsv")) if split.listed is not None else set()
    with path.open("rb") as file:
        lines = enumerate(file, start=1)
        if split.header:
            _check_header(_fields(next(lines, (1, b""))[1]), path, split)
        for number, line in lines:
            report.read += 1
            fields = _fields(line)
            reason = _malformed(fields, task, split)
            if reason is not None:
                report.first = report.first or f"line {number} has {reason}"
                counts = report.dropped if split.labelled else report.empty
                counts[reason] = counts.get(reason, 0) + 1
                if not split.labelled:
                    report.kept += 1
                    yield Row(("",) * len(task.texts), None)
            elif split.listed is not None and (_pair(fields, split) in listed) != split.listed:
                report.other_split += 1
            else:
                report.kept += 1
                yield _row(fields, task, split)
    _check_rows(path, task, split, report, partial)


def _fields(line: bytes) -> list[str]:
    return line.removeprefix(_BOM).rstrip(b"\r\n").decode("utf-8", errors="surrogateescape").split("\t")


def _check_header(found: list[str], path: Path, split: Split) -> None:
    if found != list(split.columns):
        header = ", ".join(found).encode("utf-8", "replace").decode()
        raise UserError(f"{path}, line 1: the columns should be {', '.join(split.columns)}; there is {header[:200]!r}.")


def _malformed(fields: list[str], task: Task, split: Split) -> str | None:
    if fields == [""]:
        return "nothing in it"
    if len(fields) != len(split.columns):
        return f"{len(fields)} columns, not {len(split.columns)}"
    if not split.labelled:
        return None
    label = _label(fields, task, split)
    shown = ascii(label[:40])
    if task.scale is None:
        return None if label in task.classes else f"the label {shown}, not {' or '.join(task.classes)}"
    return None if 0 <= _score(label) <= task.scale else f"the score {shown}, not one from 0 to {task.scale:g}"


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
    if not path.is_file():
        raise UserError(f"there is no {path}, by which GLUE splits MRPC: it comes with the GLUE download.")
    with path.open("rb") as file:
        return {tuple(_fields(line)) for line in file}


def _pair(fields: list[str], split: Split) -> tuple[str, ...]:
    return tuple(fields[split.columns.index(name)] for name in ("#1 ID", "#2 ID"))


def _check_rows(path: Path, task: Task, split: Split, report: Report, partial: bool) -> None:
    if report.kept == 0 and not report.first:
        raise UserError(f"{path} has no rows for the {split.name} set of {task.name}: it is empty, or another file.")
    malformed = sum(report.dropped.values()) + sum(report.empty.values())
    if malformed == report.read or malformed > max(_MALFORMED, _MALFORMED_SHARE * report.read):
        raise UserError(
            f"{path} is no {split.name} file of {task.name}: {malformed} of its {report.read} rows are malformed; "
            f"{report.first}."
        )
    if split.rows and not partial and not _FEWEST * split.rows <= report.read <= _MOST * split.rows:
        raise UserError(
            f"{path} has {report.read} rows and ends at line {report.read + split.header}, but the published file has "
            f"{split.rows}: get it anew, or give --partial to take it as it is."
        )
