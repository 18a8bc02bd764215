"""Write a task's folders for fairseq's sentence prediction, with a corpus' text processing and vocabulary."""

import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, TextIO

import numpy as np
from tqdm import tqdm

from tupe.data.binary import EOS, PAD, check_contents, check_folder, writer
from tupe.data.corpus.manifest import NAME, Manifest
from tupe.data.corpus.tokenizers import Tokenizer
from tupe.data.corpus.vocabulary import FAIRSEQ_SYMBOLS, UNKNOWN_NUMBER, read_symbols
from tupe.data.glue.reader import Report, Row, rows
from tupe.data.glue.tasks import TASKS, Split, Task
from tupe.data.parallel import Map, batches
from tupe.data.qa.pieces import encoder_of
from tupe.data.text.stages import TextProcessing
from tupe.errors import UserError
from tupe.files import checksums, own, read, sha256, sizes, whole_folder, write

MADE_BY = "tupe prepare-glue"
WORDS = ".words"  # suffix of a split's file of words: a word a line, an empty line after each sentence
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
    description: Task | None = None  # of a user's own task; GLUE's are in the table


def prepare(
    tasks: Iterable[Task], glue: Path, corpus: Manifest, out: Path, any_size: bool, verify: bool, map_: Map
) -> Iterator[Content]:
    """Write `out/<task>` of each task: `input0`, for pairs `input1`, `label`, and `manifest.json`.

    A task that was made from the same files and corpus is not made again; `verify` checks its checksums, not only its
    sizes. `any_size` accepts files with another number of rows than the published ones.

    Yields:
        What each manifest holds.

    Raises:
        UserError: if a file is missing or not what it should be, if `out/<task>` holds something else, or if another
            process is working in `out`.
    """
    check_folder(out)
    found = [(task, files_of(task, glue)) for task in tasks]  # all, before the first is written
    with own(out, MADE_BY, {}, besides=None):  # data in another vocabulary may be there
        for task, files in found:
            named = {s.name: {"path": str(path.relative_to(glue)), "sha256": sha256(path)} for s, path in files.items()}
            made_of = {"files": named, **corpus.described()}
            content = done(out / task.name, made_of, verify, MADE_BY)
            if content is None:
                read = {split: partial(rows, path, task, split, partial=any_size) for split, path in files.items()}
                content = write_task(task, read, made_of, corpus, out / task.name, map_, own=task.name not in TASKS)
            yield content


def done(out: Path, made_of: dict[str, Any], verify: bool, made_by: str) -> Content | None:
    """Check and return the task in `out`; None if there is none, or one that was made of something else.

    Raises:
        UserError: if `out` is damaged or holds what `made_by` did not make.
    """
    if (out / NAME).is_file():
        mending = f"remove {out} and start again"
        content = read(out / NAME, Content, made_by, mending)
        if content.made_of == made_of:
            check_contents(out, content.sizes, content.checksums if verify else {}, made_by, mending)
            return content
    elif os.path.lexists(out):
        raise UserError(f"{out} is there, but not made by this command: choose another folder for OUT.")
    return None


def write_task(
    task: Task,
    read: Mapping[Split, Callable[[Report], Iterable[Row]]],
    made_of: dict[str, Any],
    corpus: Manifest,
    out: Path,
    map_: Map,
    own: bool = False,
) -> Content:
    """Write the folder `out` of a task, whole or not at all; the manifest describes a user's `own` task.

    For each split, the function in `read` yields its rows and counts them.
    """
    with whole_folder(out) as folder:
        (folder / "label").mkdir()  # for files without labels too: it names the classes of predictions
        reports = {}
        for split, rows_of in read.items():
            reports[split.name] = report = Report()
            bar = tqdm(
                rows_of(report),
                f"{task.name} {split.name}",
                split.rows or None,
                leave=False,
                disable=None,
                unit=" rows",
            )
            encode = partial(_encode_words if task.tokens else _encode, corpus.folder)
            _write(map_(encode, batches(bar, _BATCH)), folder, task, split, corpus)
        for number in range(len(task.texts)):
            (folder / f"input{number}/dict.txt").write_bytes(corpus.dictionary.read_bytes())
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
            description=task if own else None,
        )
        write(folder / NAME, content)
    return content


def present(task: Task, glue: Path) -> bool:
    """Tell whether the download has anything of a task."""
    splits = (split for split in (*task.splits, *task.otherwise) if not split.borrowed)
    return any((glue / name).is_file() for split in splits for name in split.files)


def other_languages(task: Task, glue: Path) -> list[str]:
    """List files of languages that the task does not have, as `XNLI/test-qq.tsv`."""
    names = [name for split in task.splits if "-" in split.name for name in split.files]
    patterns = sorted({f"{name.rpartition('-')[0]}-*.tsv" for name in names})
    found = (path.relative_to(glue).as_posix() for pattern in patterns for path in sorted(glue.glob(pattern)))
    return [name for name in found if name not in names]


def files_of(task: Task, glue: Path) -> dict[Split, Path]:
    """Find the files of a task in the GLUE download. Raise a `UserError` if one is missing."""
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
            raise UserError(
                f"{paths[0]}, the {split.name} file of {task.name}, is a folder, a pipe or a broken link: get it anew."
            )
        elif (split.labelled and not split.optional) or len(splits) == 1:
            raise UserError(
                f"there is no {glue / split.files[0]}, the {split.name} file of {task.name}: give all of GLUE."
            )
    return found


def _check_languages(folder: Path, task: Task) -> None:
    """Raise a `UserError` if the files of two languages, whose lines are translations, have other labels."""
    first: dict[str, Path] = {}
    for path in sorted(folder.glob("label/*-*.bin")):
        other = first.setdefault(path.stem.partition("-")[0], path)
        if path.read_bytes() != other.read_bytes():
            raise UserError(
                f"the {task.name} files {path.stem} and {other.stem} do not have the same labels line by line: one "
                "lacks lines, or is of another set; get them anew."
            )


class Encoded(NamedTuple):
    """A row as it is written."""

    numbers: list[list[int]]  # tokens of each text
    # the class, the score, or the classes; where every word has a class, one for each token: "" for an unknown class,
    # None at a token that begins no word
    label: str | tuple[str | None, ...] | None
    words: tuple[str, ...] = ()  # where every word has a class


def _encode(corpus: Path, batch: list[Row]) -> list[Encoded]:
    processing, encoder = _tools(corpus)
    return [Encoded([encoder(processing.line(text)) for text in row.texts], row.label) for row in batch]


@cache
def _tools(folder: Path) -> tuple[TextProcessing, Tokenizer]:
    """Return the text processing and the tokenizer of a corpus, made once in each process."""
    corpus = Manifest.load(folder)
    return corpus.text_processing(), corpus.tokenizer()


def _encode_words(corpus: Path, batch: list[Row]) -> list[Encoded]:
    """Encode sentences whose texts are words; a word that is left without a token gets the unknown one."""
    encoded = []
    for row in batch:
        numbers, first = _pieces_of_words(corpus, row.texts)
        labels: list[str | None] = [None] * len(numbers)
        for place, label in zip(first, row.label or ("",) * len(first)):
            labels[place] = label
        encoded.append(Encoded([numbers], tuple(labels), row.texts))
    return encoded


def _pieces_of_words(corpus: Path, words: tuple[str, ...]) -> tuple[list[int], list[int]]:
    """Return the tokens of a sentence, and the place of the first of each word."""
    exact = encoder_of(corpus)
    numbers: list[int] = []
    first: list[int] = []
    if exact is None:  # the text processing rewrites texts, so each word is encoded by itself
        processing, encoder = _tools(corpus)
        for word in words:
            first.append(len(numbers))
            numbers += encoder(processing.line(word)) or [UNKNOWN_NUMBER]
        return numbers, first
    pieces = exact(" ".join(words))
    begins = np.cumsum([0, *(len(word) + 1 for word in words)])
    place = 0
    for begin, after in itertools.pairwise(begins.tolist()):
        found = max(place, int(np.searchsorted(pieces.end, begin, side="left")))
        numbers += pieces.numbers[place:found].tolist()
        place = found
        first.append(len(numbers))
        if place < len(pieces.begin) and pieces.begin[place] < after - 1 and pieces.end[place] < after:
            numbers.append(int(pieces.numbers[place]))
            place += 1
        else:  # the word has no piece, or only one that a neighbour has too
            numbers.append(UNKNOWN_NUMBER)
    return numbers + pieces.numbers[place:].tolist(), first


def _write(batches: Iterable[list], folder: Path, task: Task, split: Split, corpus: Manifest) -> None:
    """Write the texts and, of a file with labels, the labels."""
    with ExitStack() as stack:

        def open_(name: str, number: int) -> Callable[[np.ndarray, np.ndarray], None]:
            return stack.enter_context(writer(folder / name / split.name, number))

        def open_text(name: str) -> TextIO:
            return stack.enter_context((folder / "label" / name).open("w", encoding="utf-8", newline="\n"))

        symbols = len(read_symbols(corpus.dictionary))
        texts = [open_(f"input{side}", symbols) for side in range(len(task.texts))]
        number_of: dict[str | None, int] = {name: i for i, name in enumerate(task.classes, len(FAIRSEQ_SYMBOLS))}
        if task.tokens:
            number_of.update({None: PAD, "": UNKNOWN_NUMBER})
        classes = (split.labelled or task.tokens) and task.scale is None
        if classes:
            labels = open_("label", len(FAIRSEQ_SYMBOLS) + len(task.classes))
        elif split.labelled:
            scores = open_text(f"{split.name}.label")
        if task.tokens and split.name != "train":
            words = open_text(f"{split.name}{WORDS}")
        for batch in batches:
            for side, add in enumerate(texts):
                _add(add, [row.numbers[side] for row in batch])
            if classes:
                names = [row.label if isinstance(row.label, tuple) else (row.label,) for row in batch]
                _add(labels, [[number_of[name] for name in of_row] for of_row in names])
            elif split.labelled:  # numbers are not binarised
                scores.writelines(f"{row.label}\n" for row in batch)
            if task.tokens and split.name != "train":
                words.writelines("\n".join((*row.words, "", "")) for row in batch)


def _add(add: Callable[[np.ndarray, np.ndarray], None], lines: list[list[int]]) -> None:
    tokens = [number for line in lines for number in (*line, EOS)]
    add(np.array(tokens, dtype=np.int64), np.array([len(line) + 1 for line in lines], dtype=np.int32))
