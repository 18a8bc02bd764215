"""Read the rows of a task's files, and write its folder for fairseq's sentence prediction, encoded as a corpus."""

import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

from tqdm import tqdm

from tupe.data.binary import EOS, writer
from tupe.data.glue.tasks import MANIFEST, Split, Task, fields_of
from tupe.data.manifest import Manifest
from tupe.data.parallel import Map, batches
from tupe.data.text import TextProcessing
from tupe.data.tokenizers import DICTIONARY, FAIRSEQ_SYMBOLS, Tokenizer, read_symbols
from tupe.util import UserError, atomic, read_json, sha256, write_json

_BATCH = 1000  # rows that a process gets at a time


class Row(NamedTuple):
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


@dataclass(frozen=True)
class Content:
    """Contents of a task's `manifest.json`."""

    task: dict[str, Any]  # the row of the table, or of one's own file
    made_of: dict[str, Any]  # checksums of the task's files and of the corpus' vocabulary, and the text processing
    splits: dict[str, dict[str, int]]  # what became of the rows of each file

    def lines(self) -> Iterator[str]:
        """Return a line for each file, and a warning where a file is the training file."""
        for split, counts in self.splits.items():
            others = [f"{number:,} {what.replace('_', ' ')}" for what, number in counts.items() if number]
            yield f"{self.task['name']:<6} {split:<6} rows: {', '.join(others)}"
        yield from same_as_training({split: file["sha256"] for split, file in self.made_of["files"].items()})


def same_as_training(checksums: dict[str, Any]) -> Iterator[str]:
    """Warn of each split whose files hold what the training file holds."""
    for split, checksum in checksums.items():
        if split != "train" and checksum == checksums.get("train"):
            yield f"warning: the {split} data are the training data: scores on them say nothing of other texts"


def rows(path: Path, task: Task, split: Split, report: Report, partial: bool = False) -> Iterator[Row]:
    """Yield the rows of a file that can be used; every row of a file without labels. Count them in `report`.

    Raises:
        UserError: the columns are others, or, without `partial`, the number of rows is far from the published one.
    """
    listed = _listed(path.with_name("dev_ids.tsv")) if split.listed is not None else set()
    with path.open("rb") as file:
        if split.header and (found := fields_of(file.readline())) != list(split.columns):
            raise UserError(f"{path} has the columns {', '.join(found)[:200]}, not {', '.join(split.columns)}.")
        for line in file:
            report.read += 1
            values = fields_of(line)
            fields = dict(zip(split.columns, values))
            label = _label(fields, task) if split.labelled else None
            if len(values) != len(split.columns) or (split.labelled and label is None):
                if split.labelled:
                    report.dropped += 1
                    continue
                report.empty += 1
                fields = dict.fromkeys(split.columns, "")
            elif split.listed is not None and ((fields["#1 ID"], fields["#2 ID"]) in listed) != split.listed:
                report.other_split += 1
                continue
            report.kept += 1
            yield Row(tuple(fields[name] for name in task.texts), label)

    usable = report.read - report.dropped - report.empty
    if split.rows and not partial and not 0.9 * split.rows <= usable <= 1.1 * split.rows:
        raise UserError(
            f"{path} has {usable:,} rows of {task.name}, but the published file has {split.rows:,}. Download it again, "
            "or pass --partial to take it as it is."
        )


def _label(fields: dict[str, str], task: Task) -> str | None:
    """Return the class of a row, or its score in [0, 1]; `None` if it has none of the task."""
    label = fields.get(task.label, "")
    label = dict(task.synonyms).get(label, label)
    if task.scale is None:
        return label if label in task.classes else None
    try:
        score = float(label)
    except ValueError:
        return None
    return repr(score / task.scale) if 0 <= score <= task.scale else None


def _listed(path: Path) -> set[tuple[str, ...]]:
    """Return the pairs of sentence numbers that MRPC's development set consists of."""
    with path.open("rb") as file:
        return {tuple(fields_of(line)) for line in file}


def present(task: Task, glue: Path) -> bool:
    """Tell whether the download has anything of a task."""
    splits = (split for split in (*task.splits, *task.otherwise) if not split.borrowed)
    return any((glue / name).is_file() for split in splits for name in split.files)


def files_of(task: Task, glue: Path) -> dict[Split, Path]:
    """Find the files of a task in the GLUE download: the training and development files must be there."""
    found = {}
    splits = task.splits
    if task.otherwise and not (glue / task.splits[0].files[0]).is_file() and present(task, glue):
        splits = task.otherwise
    for split in splits:
        path = next((glue / name for name in split.files if (glue / name).is_file()), None)
        if path is not None:
            found[split] = path
        elif (split.labelled and not split.optional) or len(splits) == 1:
            raise FileNotFoundError(glue / split.files[0])
    return found


def prepare(
    tasks: Iterable[Task], glue: Path, corpus: Manifest, out: Path, any_size: bool, map_: Map
) -> Iterator[Content]:
    """Write `out/<task>` of each task: `input0`, for pairs `input1`, `label`, and `manifest.json`.

    A task that was made from the same files and corpus is not made again. `any_size` accepts files with another number
    of rows than the published ones.

    Yields:
        What each manifest holds.
    """
    found = [(task, files_of(task, glue)) for task in tasks]  # all, before the first is written
    for task, files in found:
        folder = out / task.name
        named = {
            split.name: {"path": str(path.relative_to(glue)), "sha256": sha256(path)} for split, path in files.items()
        }
        made_of = {"files": named, **corpus.described()}
        content = Content(**read_json(folder / MANIFEST)) if (folder / MANIFEST).is_file() else None
        if content is None or content.made_of != made_of:
            with atomic(folder, overwrite=content is not None) as part:
                splits = {
                    split.name: _write_split(part, task, split, path, corpus, any_size, map_)
                    for split, path in files.items()
                }
                _write_dictionaries(part, task, corpus)
                content = Content(asdict(task), made_of, splits)
                write_json(part / MANIFEST, asdict(content))
        yield content


def _write_split(
    folder: Path, task: Task, split: Split, path: Path, corpus: Manifest, any_size: bool, map_: Map
) -> dict[str, int]:
    """Write the texts of a file and its labels, if it has some; return what became of its rows."""
    report = Report()
    found = rows(path, task, split, report, any_size)
    bar = tqdm(found, f"{task.name} {split.name}", split.rows or None, leave=False, disable=None, unit=" rows")
    encoded = map_(partial(_encode, corpus.folder), batches(bar, _BATCH))

    number_of = {name: number for number, name in enumerate(task.classes, len(FAIRSEQ_SYMBOLS))}
    symbols = len(read_symbols(corpus.dictionary))
    (folder / "label").mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:

        def open_(name: str, symbols: int) -> Callable[[list[int]], None]:
            (folder / name).mkdir(exist_ok=True)
            return stack.enter_context(writer(folder / name / split.name, symbols))

        texts = [open_(f"input{side}", symbols) for side in range(len(task.texts))]
        if split.labelled and task.classes:
            label = open_("label", len(FAIRSEQ_SYMBOLS) + len(task.classes))
        elif split.labelled:  # numbers are not binarised
            scores = stack.enter_context((folder / f"label/{split.name}.label").open("w"))

        for row in (row for batch in encoded for row in batch):
            for add, tokens in zip(texts, row.texts):
                add([*tokens, EOS])
            if split.labelled and task.classes:
                label([number_of[row.label], EOS])
            elif split.labelled:
                scores.write(f"{row.label}\n")
    return asdict(report)


def _write_dictionaries(folder: Path, task: Task, corpus: Manifest) -> None:
    """Write `dict.txt` of the texts and of the classes."""
    for number in range(len(task.texts)):
        shutil.copyfile(corpus.dictionary, folder / f"input{number}" / DICTIONARY)
    if task.classes:  # for files without labels too: it names the classes of predictions
        classes = "".join(f"{name} 1\n" for name in task.classes)
        (folder / "label" / DICTIONARY).write_text(classes, encoding="utf-8")


def _encode(corpus: Path, batch: list[Row]) -> list[Row]:
    """Put the numbers of its tokens in place of each text."""
    processing, tokenizer = _tools(corpus)
    return [Row(tuple(tokenizer(processing.line(text)) for text in row.texts), row.label) for row in batch]


@cache
def _tools(folder: Path) -> tuple[TextProcessing, Tokenizer]:
    """Return the text processing and the tokenizer of a corpus, made once in each process."""
    corpus = Manifest.load(folder)
    return corpus.text_processing(), corpus.tokenizer()
