"""Write a task's folders for fairseq's sentence prediction, with a corpus' text processing and vocabulary."""

import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from tqdm import tqdm

from tupe.data.binary import EOS, writer
from tupe.data.corpus.manifest import Manifest
from tupe.data.corpus.tokenizers import Tokenizer
from tupe.data.corpus.vocabulary import FAIRSEQ_SYMBOLS, read_symbols
from tupe.data.glue.reader import MANIFEST, Report, Row, rows
from tupe.data.glue.report import same_as_training
from tupe.data.glue.tasks import Split, Task
from tupe.data.parallel import Map, batches
from tupe.data.text.stages import TextProcessing
from tupe.util import atomic, read_json, sha256, write_json

_BATCH = 1000  # rows that a process gets at a time


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
        named = {s.name: {"path": str(path.relative_to(glue)), "sha256": sha256(path)} for s, path in files.items()}
        made_of = {"files": named, **corpus.described()}
        content = Content(**read_json(folder / MANIFEST)) if (folder / MANIFEST).is_file() else None
        if content is None or content.made_of != made_of:
            with atomic(folder, overwrite=content is not None) as part:
                splits = _write_task(task, files, corpus, part, any_size, map_)
                content = Content(asdict(task), made_of, splits)
                write_json(part / MANIFEST, asdict(content))
        yield content


def _write_task(
    task: Task, files: dict[Split, Path], corpus: Manifest, folder: Path, any_size: bool, map_: Map
) -> dict[str, dict[str, int]]:
    """Write the folder of a task, and return what became of the rows of each split."""
    (folder / "label").mkdir(parents=True)  # for files without labels too: it names the classes of predictions
    reports = {}
    for split, path in files.items():
        report = Report()
        found = rows(path, task, split, report, any_size)
        bar = tqdm(found, f"{task.name} {split.name}", split.rows or None, leave=False, disable=None, unit=" rows")
        _write(map_(partial(_encode, corpus.folder), batches(bar, _BATCH)), folder, task, split, corpus)
        reports[split.name] = asdict(report)
    for number in range(len(task.texts)):
        shutil.copyfile(corpus.dictionary, folder / f"input{number}/dict.txt")
    if task.classes:
        classes = "".join(f"{name} 1\n" for name in task.classes)
        (folder / "label/dict.txt").write_text(classes, encoding="utf-8")
    return reports


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


class Encoded(NamedTuple):
    """A row as it is written."""

    numbers: list[list[int]]  # tokens of each text
    label: str | None  # the class or the score


def _encode(corpus: Path, batch: list[Row]) -> list[Encoded]:
    processing, encoder = _tools(corpus)
    return [Encoded([encoder(processing.line(text)) for text in row.texts], row.label) for row in batch]


@cache
def _tools(folder: Path) -> tuple[TextProcessing, Tokenizer]:
    """Return the text processing and the tokenizer of a corpus, made once in each process."""
    corpus = Manifest.load(folder)
    return corpus.text_processing(), corpus.tokenizer()


def _write(batches: Iterable[list[Encoded]], folder: Path, task: Task, split: Split, corpus: Manifest) -> None:
    """Write the texts and, of a file with labels, the labels."""
    number_of = {name: number for number, name in enumerate(task.classes, len(FAIRSEQ_SYMBOLS))}
    with ExitStack() as stack:

        def open_(name: str, symbols: int) -> Callable[[np.ndarray, np.ndarray], None]:
            return stack.enter_context(writer(folder / name / split.name, symbols))

        symbols = len(read_symbols(corpus.dictionary))
        texts = [open_(f"input{side}", symbols) for side in range(len(task.texts))]
        if split.labelled and task.classes:
            labels = open_("label", len(FAIRSEQ_SYMBOLS) + len(task.classes))
        elif split.labelled:  # numbers are not binarised
            scores = stack.enter_context((folder / f"label/{split.name}.label").open("w"))
        for batch in batches:
            for side, add in enumerate(texts):
                _add(add, [row.numbers[side] for row in batch])
            if split.labelled and task.classes:
                _add(labels, [[number_of[row.label]] for row in batch])
            elif split.labelled:
                scores.writelines(f"{row.label}\n" for row in batch)


def _add(add: Callable[[np.ndarray, np.ndarray], None], lines: list[list[int]]) -> None:
    tokens = [number for line in lines for number in (*line, EOS)]
    add(np.array(tokens, dtype=np.int64), np.array([len(line) + 1 for line in lines], dtype=np.int32))
