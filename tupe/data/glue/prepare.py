"""A task's files become folders for fairseq's sentence prediction, with a corpus' text processing and vocabulary."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from functools import cache, partial
from pathlib import Path
from typing import Any

from tqdm import tqdm

from tupe.data.binarise import binarise, check_folder
from tupe.data.corpus.manifest import NAME, Manifest
from tupe.data.corpus.vocabulary import Encoder
from tupe.data.glue.reader import Report, Row, rows
from tupe.data.glue.tasks import Split, Task
from tupe.data.parallel import Map
from tupe.data.text.stages import TextProcessing
from tupe.errors import UserError
from tupe.files import sha256, whole_folder, write_json

_BATCH = 1000  # rows that a process gets at a time


def prepare(task: Task, glue: Path, corpus: Manifest, out: Path, any_size: bool, map_: Map) -> dict[str, Any]:
    """Writes `out/<task>`: `input0`, for pairs `input1`, `label`, and `manifest.json`, unless it is there already.

    Args:
        task: the task.
        glue: folder of the download.
        corpus: whose text processing and vocabulary are used.
        out: folder of all tasks.
        any_size: accept files that have not as many rows as were published.
        map_: from `tupe.data.parallel.pool`.

    Returns:
        What the manifest holds: what it was made of, and for each split what became of its rows.

    Raises:
        UserError: if a file is missing, or not what it should be, or if `out/<task>` holds something else.
    """
    check_folder(out)
    files = _files(task, glue)
    made_of = {
        "files": {
            split.name: {"path": str(path.relative_to(glue)), "sha256": sha256(path)} for split, path in files.items()
        },
        "corpus": {name: corpus.content["checksums"][name] for name in (corpus.model.name, corpus.dictionary.name)},
        "text": {name: corpus.content["settings"][name] for name in ("stages", "language")},
    }
    done = out / task.name / NAME
    if done.is_file():
        content = json.loads(done.read_text(encoding="utf-8"))
        if content["made_of"] == made_of:
            return content
    elif done.parent.exists():
        raise UserError(f"{done.parent} is there, but not made by this command: choose another folder for OUT.")
    content = {"task": task.name, "classes": task.classes, "scale": task.scale, "made_of": made_of, "splits": {}}
    with whole_folder(out / task.name) as folder:
        texts = folder / "text"
        texts.mkdir()
        for split, path in files.items():
            report = Report()
            found = rows(path, task, split, report, any_size)
            bar = tqdm(found, f"{task.name} {split.name}", split.rows, leave=False, disable=None, unit=" rows")
            read = _batches(bar)
            _write(map_(partial(_encode, corpus), read), texts / split.name, len(task.texts))
            content["splits"][split.name] = vars(report)
        _binarise(task, [split.name for split in files], texts, folder, corpus.dictionary)
        shutil.rmtree(texts)
        write_json(folder / NAME, content)
    return content


def present(task: Task, glue: Path) -> bool:
    """Whether the download has anything of a task."""
    return any((glue / name).is_file() for split in (*task.splits, *task.otherwise) for name in split.files)


def _files(task: Task, glue: Path) -> dict[Split, Path]:
    found = {}
    splits = task.splits
    if task.otherwise and not (glue / task.splits[0].files[0]).is_file() and present(task, glue):
        splits = task.otherwise
    for split in splits:
        path = next((glue / name for name in split.files if (glue / name).is_file()), None)
        if path is not None:
            found[split] = path
        elif split.labelled or len(splits) == 1:
            raise UserError(f"there is no {glue / split.files[0]}, the {split.name} file of {task.name}.")
    return found


def _batches(rows_: Iterable[Row]) -> Iterator[list[Row]]:
    batch: list[Row] = []
    for row in rows_:
        batch.append(row)
        if len(batch) == _BATCH:
            yield batch
            batch = []
    yield batch


def _encode(corpus: Manifest, batch: list[Row]) -> list[Row]:
    """The rows with the pieces of their texts, separated by spaces."""
    processing, encoder = _tools(corpus.folder)
    return [Row(tuple(" ".join(encoder(processing.line(text))) for text in row.texts), row.label) for row in batch]


@cache
def _tools(folder: Path) -> tuple[TextProcessing, Encoder]:
    """Made once in each process."""
    corpus = Manifest.load(folder)
    return corpus.text_processing(), Encoder(corpus.model)


def _write(batches: Iterable[list[Row]], prefix: Path, texts: int) -> None:
    """Writes `prefix.0`, for pairs `prefix.1`, and `prefix.label`."""
    with ExitStack() as stack:
        paths = [Path(f"{prefix}.{name}") for name in (*range(texts), "label")]
        *files, labels = (stack.enter_context(path.open("w", encoding="utf-8", newline="\n")) for path in paths)
        for row in (row for batch in batches for row in batch):
            for file, text in zip(files, row.texts):
                file.write(f"{text}\n")
            if row.label is not None:
                labels.write(f"{row.label}\n")


def _binarise(task: Task, splits: list[str], texts: Path, folder: Path, dictionary: Path) -> None:
    def files(kind: str, of: list[str]) -> dict[str, list[Path]]:
        found: dict[str, list[Path]] = {}
        for split in of:
            found.setdefault(split.rstrip("1"), []).append(texts / f"{split}.{kind}")
        return found

    for number in range(len(task.texts)):
        binarise(folder / f"input{number}", dictionary, files(str(number), splits))
    labelled = [split for split in splits if not split.startswith("test")]
    if task.scale is None:
        classes = texts / "classes"
        classes.write_text("".join(f"{name} 1\n" for name in task.classes), encoding="utf-8")
        binarise(folder / "label", classes, files("label", labelled))
    else:  # numbers are not binarised
        (folder / "label").mkdir()
        for split in labelled:
            (texts / f"{split}.label").replace(folder / f"label/{split}.label")
