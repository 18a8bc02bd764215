"""A task's files become folders for fairseq's sentence prediction, with a corpus' text processing and vocabulary."""

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from tqdm import tqdm

from tupe.data.binary import EOS, check_contents, check_folder, writer
from tupe.data.corpus.manifest import NAME, Manifest
from tupe.data.corpus.tokenizers import Tokenizer
from tupe.data.corpus.vocabulary import FAIRSEQ_SYMBOLS, read_symbols
from tupe.data.glue.reader import Report, Row, rows
from tupe.data.glue.tasks import Split, Task
from tupe.data.parallel import Map, batches
from tupe.data.text.stages import TextProcessing
from tupe.errors import UserError
from tupe.files import checksums, own, read, sha256, sizes, whole_folder, write

MADE_BY = "tupe prepare-glue"
_BATCH = 1000  # rows that a process gets at a time


@dataclass(frozen=True)
class Content:
    """Contents of a task's `manifest.json`."""

    version: ClassVar[int] = 2
    task: str
    classes: tuple[str, ...]  # label names in the order of their numbers
    scale: float | None  # the highest score, which the labels were divided by; null for classes
    made_of: dict[str, Any]  # checksums of the task's files and of the corpus' vocabulary, and the text processing
    splits: dict[str, Report]  # what became of the rows of each file
    sizes: dict[str, int]
    checksums: dict[str, str]  # SHA-256 of each


def prepare(
    tasks: Iterable[Task], glue: Path, corpus: Manifest, out: Path, any_size: bool, verify: bool, map_: Map
) -> Iterator[Content]:
    """Write `out/<task>` of each task: `input0`, for pairs `input1`, `label`, and `manifest.json`.

    What is there already, made from the same files and the same corpus, is not done again; `verify` checks its
    checksums, not only its sizes. `any_size` accepts files that have not as many rows as were published.

    Yields:
        What each manifest holds.

    Raises:
        UserError: if a file is missing, or not what it should be, or if `out/<task>` holds something else, or if
            another process is working in `out`.
    """
    check_folder(out)
    with own(out, MADE_BY, {}, besides=None):  # data in another vocabulary may be there
        for task in tasks:
            yield _prepare(task, glue, corpus, out / task.name, any_size, verify, map_)


def _prepare(task: Task, glue: Path, corpus: Manifest, out: Path, any_size: bool, verify: bool, map_: Map) -> Content:
    files = _files(task, glue)
    made_of = {
        "files": {
            split.name: {"path": str(path.relative_to(glue)), "sha256": sha256(path)} for split, path in files.items()
        },
        "corpus": {name: corpus.content.checksums[name] for name in (corpus.model.name, corpus.dictionary.name)},
        "text": {"stages": list(corpus.content.settings.stages), "language": corpus.content.settings.language},
    }
    if (out / NAME).is_file():
        mending = f"remove {out} and start again"
        content = read(out / NAME, Content, MADE_BY, mending)
        if content.made_of == made_of:
            check_contents(out, content.sizes, content.checksums if verify else {}, MADE_BY, mending)
            return content
    elif os.path.lexists(out):
        raise UserError(f"{out} is there, but not made by this command: choose another folder for OUT.")
    with whole_folder(out) as folder:
        reports = {}
        for split, path in files.items():
            reports[split.name] = report = Report()
            found = rows(path, task, split, report, any_size)
            bar = tqdm(found, f"{task.name} {split.name}", split.rows, leave=False, disable=None, unit=" rows")
            _write(map_(partial(_encode, corpus.folder), batches(bar, _BATCH)), folder, task, split, corpus)
        for number in range(len(task.texts)):
            (folder / f"input{number}/dict.txt").write_bytes(corpus.dictionary.read_bytes())
        (folder / "label").mkdir(exist_ok=True)  # of files without labels too, whose predictions are named by it
        if task.classes:
            classes = "".join(f"{name} 1\n" for name in task.classes)
            (folder / "label/dict.txt").write_text(classes, encoding="utf-8")
        _check_languages(folder, task)
        names = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
        content = Content(
            task=task.name,
            classes=task.classes,
            scale=task.scale,
            made_of=made_of,
            splits=reports,
            sizes=sizes(folder, names),
            checksums=checksums(folder, names),
        )
        write(folder / NAME, content)
    return content


def present(task: Task, glue: Path) -> bool:
    """Whether the download has anything of a task."""
    splits = (split for split in (*task.splits, *task.otherwise) if not split.borrowed)
    return any((glue / name).is_file() for split in splits for name in split.files)


def other_languages(task: Task, glue: Path) -> list[str]:
    """Files by language that are none of the task's, as `XNLI/test-qq.tsv`."""
    names = [name for split in task.splits if "-" in split.name for name in split.files]
    patterns = sorted({f"{name.rpartition('-')[0]}-*.tsv" for name in names})
    found = (path.relative_to(glue).as_posix() for pattern in patterns for path in sorted(glue.glob(pattern)))
    return [name for name in found if name not in names]


def _files(task: Task, glue: Path) -> dict[Split, Path]:
    found = {}
    splits = task.splits
    if task.otherwise and not (glue / task.splits[0].files[0]).is_file() and present(task, glue):
        splits = task.otherwise
    for split in splits:
        paths = [glue / name for name in split.files if os.path.lexists(glue / name)]
        path = next((path for path in paths if path.is_file()), None)
        if path is not None:
            found[split] = path
        elif paths:
            raise UserError(f"{paths[0]}, the {split.name} file of {task.name}, is a folder, a pipe or a broken link.")
        elif (split.labelled and not split.optional) or len(splits) == 1:
            raise UserError(f"there is no {glue / split.files[0]}, the {split.name} file of {task.name}.")
    return found


def _check_languages(folder: Path, task: Task) -> None:
    """Raises a `UserError` if the files of two languages, whose lines are translations, have other labels."""
    first: dict[str, Path] = {}
    for path in sorted(folder.glob("label/*-*.bin")):
        other = first.setdefault(path.stem.partition("-")[0], path)
        if path.read_bytes() != other.read_bytes():
            raise UserError(
                f"the {task.name} files {path.stem} and {other.stem} do not have the same labels line by line: one "
                "lacks lines, or is of another set; get them anew."
            )


def _encode(corpus: Path, batch: list[Row]) -> list[tuple[list[list[int]], str | None]]:
    """Encode each row: the numbers of its texts' tokens, and the label."""
    processing, encoder = _tools(corpus)
    return [([encoder(processing.line(text)) for text in row.texts], row.label) for row in batch]


@cache
def _tools(folder: Path) -> tuple[TextProcessing, Tokenizer]:
    """Made once in each process."""
    corpus = Manifest.load(folder)
    return corpus.text_processing(), corpus.tokenizer()


def _write(batches: Iterable[list], folder: Path, task: Task, split: Split, corpus: Manifest) -> None:
    """Writes the texts and, of a file with labels, the labels."""
    with ExitStack() as stack:

        def open_(name: str, number: int) -> Callable[[np.ndarray, np.ndarray], None]:
            return stack.enter_context(writer(folder / name / split.name, number))

        symbols = len(read_symbols(corpus.dictionary))
        texts = [open_(f"input{side}", symbols) for side in range(len(task.texts))]
        if split.labelled and task.scale is None:
            labels = open_("label", len(FAIRSEQ_SYMBOLS) + len(task.classes))
        elif split.labelled:
            (folder / "label").mkdir(exist_ok=True)
            scores = stack.enter_context((folder / f"label/{split.name}.label").open("w", newline="\n"))
        for batch in batches:
            for side, add in enumerate(texts):
                _add(add, [numbers[side] for numbers, _ in batch])
            if split.labelled and task.scale is None:
                _add(labels, [[len(FAIRSEQ_SYMBOLS) + task.classes.index(label)] for _, label in batch])
            elif split.labelled:  # numbers are not binarised
                scores.writelines(f"{label}\n" for _, label in batch)


def _add(add: Callable[[np.ndarray, np.ndarray], None], lines: list[list[int]]) -> None:
    tokens = [number for line in lines for number in (*line, EOS)]
    add(np.array(tokens, dtype=np.int64), np.array([len(line) + 1 for line in lines], dtype=np.int32))
