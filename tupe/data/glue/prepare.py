"""Read a task's files, encode them as a corpus is encoded, and write the folder for fairseq's sentence prediction."""

import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

from tqdm import tqdm

from tupe.data.binary import EOS, writer
from tupe.data.documents import unchanged
from tupe.data.glue.tasks import MANIFEST, TASKS, Split, Task, fields_of, read_tasks
from tupe.data.manifest import Manifest, checksums
from tupe.data.parallel import Map, batches, counted, pool
from tupe.data.text import kept_processing
from tupe.data.tokenizers import DICTIONARY, FAIRSEQ_SYMBOLS, kept_tokenizer, read_symbols
from tupe.util import atomic, read_json, sha256, write_json

_BATCH = 1000  # rows sent to a process at a time


def rows(path: Path, task: Task, split: Split, counts: Counter) -> Iterator[tuple[tuple[str, ...], str | None]]:
    """Yield the texts and the label, a class or a score in [0, 1], of each usable row of a file.

    A file without labels keeps every row, because each needs a prediction. `counts` gets the numbers of rows that are
    `kept` and `dropped`, and of malformed rows that are kept with `empty` texts.
    """
    with path.open("rb") as file:
        columns = split.columns or fields_of(file.readline())
        for line in file:
            values = fields_of(line)
            whole = len(values) == len(columns)
            fields = dict(zip(columns, values)) if whole else dict.fromkeys(columns, "")
            label = _label(fields, task) if split.labelled else None
            if split.labelled and label is None:
                counts["dropped"] += 1
            else:
                counts["kept" if whole else "empty"] += 1
                yield tuple(fields[name] for name in task.texts), label


def _label(fields: dict[str, str], task: Task) -> str | None:
    """Return the class of a row, or its score in [0, 1]; `None` if the task has no such class or score."""
    label = fields[task.label]
    if task.scale is None:
        return label if label in task.classes else None
    try:
        score = float(label)
    except ValueError:
        return None
    return repr(score / task.scale) if 0 <= score <= task.scale else None


def present(task: Task, glue: Path) -> bool:
    """Return whether the download has files of a task other than training data, which XNLI shares with MNLI."""
    return any((glue / name).is_file() for split in task.splits if split.name != "train" for name in split.files)


def files_of(task: Task, glue: Path) -> tuple[Task, dict[Split, Path]]:
    """Find the files of a task. Training and development files are required, those of tests and languages are not.

    XTREME's own test files of XNLI lack the labels, so the splits of the returned task tell whether its files have any.
    """
    splits, found = [], {}
    for split in task.splits:
        path = next((glue / name for name in split.files if (glue / name).is_file()), None)
        if path is not None:
            if split.name.startswith("test-") and len(fields_of(path.open("rb").readline())) < len(split.columns):
                split = replace(split, columns=split.columns[:-1], labelled=False)
            found[split] = path
        elif (split.labelled and "-" not in split.name) or len(task.splits) == 1:
            raise FileNotFoundError(glue / split.files[0])
        splits.append(split)
    return replace(task, splits=tuple(splits)), found


def prepare_glue(
    glue: Path, corpus: Path, names: Sequence[str], out: Path, *, tasks: Path | None = None, workers: int = 0
) -> str:
    """Prepare tasks of GLUE, or of your own, with the text processing and vocabulary of a corpus.

    OUT gets a folder per task with `input0` (and `input1` for pairs), `label` and `manifest.json`. A task that is
    already prepared from the same files and corpus is skipped.

    tupe prepare-glue glue_data data/wiki CoLA STS-B data/glue

    Args:
        glue: GLUE's download: CoLA/train.tsv and so on; or files of your own.
        corpus: Prepared corpus, or an imported model.
        names: Tasks; all in GLUE by default.
        out: Folder that gets a folder per task.
        tasks: YAML file that describes your own tasks, whose files are in GLUE.
        workers: Processes; all cores by default.
    """
    known, manifest = read_tasks(tasks, glue) if tasks else TASKS, Manifest.load(corpus)
    there = [name for name, task in known.items() if present(task, glue)]
    chosen = [known[name] for name in names or there or known]
    if not names and len(chosen) < len(known):
        print(f"not in {glue}: {', '.join(name for name, task in known.items() if task not in chosen)}")
    found = [files_of(task, glue) for task in chosen]  # fails before anything is written
    with pool(workers) as map_:
        for task, files in found:
            path = out / task.name / MANIFEST
            content = read_json(path) if path.is_file() else {}
            with unchanged(files.values()):
                named = {
                    split.name: {"path": str(file.relative_to(glue)), "sha256": sha256(file)}
                    for split, file in files.items()
                }
                made_of = {"task": repr(task), "files": named, **manifest.described()}
                if content.get("made_of") != made_of:
                    with atomic(path.parent, overwrite="made_of" in content) as part:
                        splits = {one.name: _write(part, task, one, files[one], manifest, map_) for one in files}
                        content = {"made_of": made_of, "splits": splits, "checksums": checksums(part)}
                        write_json(part / MANIFEST, {"task": asdict(task), **content})

            for split in files:
                print(f"{task.name:<6} {split.name:<6} rows: {counted(content['splits'][split.name])}", flush=True)
    return f"data: {out}"


def _write(folder: Path, task: Task, split: Split, path: Path, corpus: Manifest, map_: Map) -> Counter:
    """Write the texts of a file, its labels if it has some, and the dictionaries; return counts of its rows."""
    counts, labels = Counter(), []
    found = rows(path, task, split, counts)
    bar = tqdm(found, f"{task.name} {split.name}", disable=None, unit=" rows")

    symbols = len(read_symbols(corpus.dictionary))
    sides = [folder / f"input{side}" for side in range(len(task.texts))]
    with ExitStack() as stack:
        add = [stack.enter_context(writer(side / split.name, symbols)) for side in sides]
        for batch in map_(partial(_encode, corpus), batches(bar, _BATCH)):
            for texts, label in batch:
                labels.append(label)
                for add_text, tokens in zip(add, texts):
                    add_text([*tokens, EOS])

    for side in sides:
        shutil.copyfile(corpus.dictionary, side / DICTIONARY)
    _write_labels(folder / "label", split, task.classes, labels)
    return counts


def _write_labels(folder: Path, split: Split, classes: Sequence[str], labels: list[str]) -> None:
    """Write labels: scores as text, classes as fairseq's data. Without labels, only the dictionary of classes."""
    folder.mkdir(exist_ok=True)
    if classes:
        (folder / DICTIONARY).write_text("".join(f"{name} 1\n" for name in classes), encoding="utf-8")
    if classes and split.labelled:
        first = len(FAIRSEQ_SYMBOLS)
        with writer(folder / split.name, first + len(classes)) as add:
            for label in labels:
                add([first + classes.index(label), EOS])
    elif split.labelled:
        (folder / f"{split.name}.label").write_text("".join(f"{label}\n" for label in labels))


def _encode(corpus: Manifest, batch: list[tuple]) -> list[tuple]:
    """Replace each text by the numbers of its tokens."""
    processing = kept_processing(corpus.settings.stages, corpus.settings.language)
    tokenizer = kept_tokenizer(corpus.model)
    return [(tuple(tokenizer(processing.line(text)) for text in texts), label) for texts, label in batch]
