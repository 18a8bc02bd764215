"""Prepare a user's own task: describe its files like a task of GLUE, and write folders like GLUE's."""

import hashlib
import json
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

from tupe.data.binary import check_folder
from tupe.data.corpus.manifest import NAME, Manifest
from tupe.data.corpus.vocabulary import FAIRSEQ_SYMBOLS, MASK, read_symbols
from tupe.data.glue.cells import LONGEST, Record, format_of, records, sentences, shown
from tupe.data.glue.prepare import Content, done, write_task
from tupe.data.glue.reader import Report, Row
from tupe.data.glue.tasks import TASKS, Split, Task
from tupe.data.parallel import Map
from tupe.errors import UserError
from tupe.files import difference, lock, read, read_json, sha256, typed

MADE_BY = "tupe prepare-task"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
_LONGEST_SENTENCE = 200  # words of a file that has no other
_HELD_OUT = 10  # one of so many training rows is held out where there is no validation file
_CLASSES = 10_000  # at most
_LONGEST_LABEL = 100  # characters
_GREATEST = 1e19  # number, and one through the least range of numbers: in float32 one by the other is finite
_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?", re.ASCII | re.IGNORECASE)
_HALF = re.compile(r"[\ud800-\udfff]")  # half a character, which JSON can hold

Labels = str | tuple[str, ...]


@dataclass(frozen=True)
class Options:
    kind: Literal["class", "multi-label", "regression"] = "class"  # kind of the labels in files of texts
    text: tuple[str, ...] = ()  # columns of the one or two texts; () for `text`, or `text1` and `text2`
    label: str = "label"  # column
    labels: tuple[str, ...] = ()  # the classes in their order; () for those of the training file, sorted
    separator: str = ","  # between the classes of a text
    format: str = ""  # "" for the format that the files' names say
    delimiter: str = ","  # delimiter of a CSV
    columns: tuple[int, int] | None = None  # numbers of the word's and its label's column, from 1


def prepare_own(
    files: dict[str, Path], corpus: Manifest, out: Path, options: Options, verify: bool, map_: Map
) -> Content:
    """Write the folder `out` of a task, which has the folder's name; one made of the same files and corpus stays.

    One of other files or of another corpus is made again, as by `tupe prepare-glue`, but not one of other options.
    `files` has `train`, and perhaps `valid` and `test`. With `verify` the checksums of a task that is done are checked.

    Raises:
        UserError: for what cannot be read, for labels that do not fit, if another process is making `out`, and if it
            was made with other options, or of a split that has no file now.
    """
    check_folder(out)
    name = out.resolve().name
    if name in TASKS or not _NAME.fullmatch(name):
        why = "is a task of GLUE or XTREME" if name in TASKS else "is not of letters, digits, - and _"
        raise UserError(f"the task is called as its folder, but {name!r:.60} {why}: choose another name for OUT.")
    for split, path in files.items():
        if not path.is_file():
            raise UserError(f"there is no file {path}, the {split} file: give one of texts and labels.")
    made_of = {
        "files": {split: {"name": path.name, "sha256": sha256(path)} for split, path in files.items()},
        "options": json.loads(json.dumps(asdict(options))),  # as JSON gives it back: tuples are lists
        **corpus.described(),
    }
    content = done(out, made_of, verify, MADE_BY)
    if (out / NAME).is_file() and description(out) is None:  # a task of GLUE under another name
        raise UserError(f"{out} was not made by {MADE_BY}: choose another folder for OUT.")
    if content is None:
        if (out / NAME).is_file():
            _check_options_before(out, made_of)
        task, rows = _described(name, files, options)
        read_ = {split: partial(_counted, rows[split.name], task) for split in task.splits}
        with lock(out.with_name(f".{out.name}.lock")) as mine:
            if mine is None:
                raise UserError(f"another process is preparing {out}: wait for it to end, or end it.")
            try:
                content = write_task(task, read_, made_of, corpus, out, map_, own=True)
            finally:
                Path(mine.name).unlink(missing_ok=True)
    return content


def _check_options_before(out: Path, made_of: dict[str, Any]) -> None:
    """Raise a `UserError` if the task in `out` was made with other options, or with a file that is left out now."""
    before = read(out / NAME, Content, MADE_BY).made_of
    files = typed(dict[str, dict[str, str]], before.get("files"), f"{out / NAME}: made_of.files", MADE_BY)
    lost = {split: file.get("name") for split, file in files.items() if split not in made_of["files"]}
    differs = difference(before.get("options"), made_of["options"]) or difference(lost, {})
    if differs:
        raise UserError(
            f"{out} was made with {differs}: give the options that it was made with, choose another folder for OUT, or "
            "remove this one."
        )


def _counted(rows: list[Row], task: Task, report: Report) -> list[Row]:
    """Return the rows of a split, and count them and their labels in `report`."""
    report.read = report.kept = len(rows)
    names = Counter(name for row in rows for name in _several(row.label))
    report.labels = {name: names[name] for name in task.classes if names[name]}
    return rows


def description(folder: Path) -> Task | None:
    """Return the description of a user's own task, named after its folder; None where there is none.

    Raises:
        UserError: if its manifest is damaged, or has other classes than `label/dict.txt`, by which labels are numbered.
    """
    path = folder / NAME
    if not _manifest(folder).get("description"):
        return None
    task, labels = read(path, Content, MADE_BY).description, folder / "label/dict.txt"
    numbered = tuple(read_symbols(labels)[len(FAIRSEQ_SYMBOLS) :]) if labels.is_file() else ()
    if task.classes != numbered:
        said, found = (", ".join(names)[:200] or "none" for names in (task.classes, numbered))
        raise UserError(
            f"{path} has the classes {said}, but {labels} {found}: copy the folder again from where it is whole, or "
            f"remove it and start {MADE_BY} again."
        )
    return replace(task, name=folder.resolve().name)


def prepared_as(folder: Path) -> str | None:
    """Return the name that a task was prepared with, None if the folder has no manifest of a task."""
    return _manifest(folder).get("task")


def _manifest(folder: Path) -> dict[str, Any]:
    """Read the manifest of a folder, of whatever kind; empty where there is none."""
    path = folder / NAME
    content = read_json(path, MADE_BY) if path.is_file() else None
    return content if isinstance(content, dict) else {}


def own_tasks(folder: Path) -> list[str]:
    """Return the names of the user's own tasks that are prepared in a folder."""
    found = sorted(path.parent for path in folder.glob(f"*/{NAME}"))
    return [path.name for path in found if not path.name.startswith(".") and description(path) is not None]


def _described(name: str, files: dict[str, Path], options: Options) -> tuple[Task, dict[str, list[Row]]]:
    """Return a task and the rows of its splits; without a validation file, some training rows are held out."""
    formats = {options.format or format_of(path) for path in files.values()}
    if "conll" in formats and len(formats) > 1:
        raise UserError(
            f"{', '.join(str(path) for path in files.values())} are files of words and files of texts: "
            "give those of one kind."
        )
    tokens = formats == {"conll"}
    _check_options(files["train"], options, formats)
    rows: dict[str, list[Row]] = {}
    texts = options.text
    for split, path in files.items():
        if tokens:
            rows[split] = list(sentences(path, options.columns))
            words = len(rows[split][0].texts)
            if len(rows[split]) == 1 and words > _LONGEST_SENTENCE:
                raise UserError(f"{path} is one sentence of {words:,} words: put an empty line behind each sentence.")
            for row in rows[split]:
                for label in {*_several(row.label)}:
                    check_name(label, f"{path}, line {row.line}")
            if split != "test" and rows[split][0].label is None:
                raise UserError(f"{path} has words in one column and no labels: give a file with both.")
        else:
            table = list(records(path, options.format or format_of(path), options.delimiter))
            if not table:
                raise UserError(f"{path} has no rows in it: it is empty, or another file.")
            texts = texts or _texts(path, table[0])
            if options.label in texts:
                label = shown(options.label)
                raise UserError(f"{path}: the column {label} is both text and label: give another --text or --label.")
            labelled = split != "test" or options.label in table[0].cells
            rows[split] = _rows(path, table, texts, labelled, options)
    if "valid" not in rows:
        _hold_out(files["train"], rows)
    files = {"valid": files["train"], **files}
    task = Task(
        name,
        tuple(
            Split(split, (files[split].name,), (), len(rows[split]), labelled=rows[split][0].label is not None)
            for split in ("train", "valid", "test")
            if split in rows
        ),
        texts=("word",) if tokens else texts,
        label=options.label,
        multi_label=options.kind == "multi-label",
        separator=options.separator,
        tokens=tokens,
    )
    if options.kind == "regression":
        return _scaled(task, rows, files["train"])
    classes = options.labels or _classes(rows["train"], files["train"], options, tokens)
    for name in options.labels:
        check_name(name, "--labels")
        if options.kind == "multi-label":
            _check_separator(name, "--labels", options)
    if len({*classes}) < len(classes):
        raise UserError("--labels names a class twice: leave one out.")
    spelled: dict[str, str] = {}
    for name in classes:
        other = spelled.setdefault(unicodedata.normalize("NFC", name), name)
        if other != name:
            raise UserError(
                f"the classes {shown(other)} and {shown(name)} look the same, but are other characters of Unicode: "
                "write one of them in all files."
            )
    if len(classes) == 1 and options.kind == "class":
        raise UserError(
            f"--labels names only {shown(classes[0])}, so there is nothing to tell apart: name all, as in --labels A B."
        )
    for split, of_split in rows.items():
        _check_classes(files[split], of_split, classes, options)
    return replace(task, classes=tuple(classes)), rows


def _check_options(path: Path, options: Options, formats: set[str]) -> None:
    """Refuse options that are for files of another kind."""
    tokens = formats == {"conll"}
    if options.delimiter != Options.delimiter and "csv" not in formats:
        raise UserError(
            f"--delimiter is for a CSV, but {path} is read as another format: leave it out, or give --format csv."
        )
    if not tokens and options.columns:
        raise UserError(f"--columns is for files of words, but {path} has texts: leave it out, or give --format conll.")
    if options.kind != "multi-label" and options.separator != Options.separator:
        raise UserError("--separator is for --multi-label, where a text has several labels: give both or none.")
    if options.kind == "regression" and options.labels:
        raise UserError("--labels names classes, but --regression is for numbers: leave one out.")
    given = [f"--{options.kind}"] if options.kind != "class" else ["--text"] if options.text else []
    given += ["--label"] if options.label != Options.label else []
    if tokens and given:
        raise UserError(f"{given[0]} is for files of texts, but {path} has words with labels: leave it out.")


def _texts(path: Path, first: Record) -> tuple[str, ...]:
    for names in (("text",), ("text1", "text2")):
        if all(name in first.cells for name in names):
            return names
    raise UserError(f"{path} has no column 'text', nor 'text1' and 'text2'{_others(first.cells)}: give --text.")


def _others(
    cells: dict[str, Any], alone: str = ", which holds all, so that its --format or --delimiter is another"
) -> str:
    return f" (it has {', '.join(shown(name) for name in list(cells)[:20])}{alone * (len(cells) == 1)})"


def _rows(path: Path, table: list[Record], texts: tuple[str, ...], labelled: bool, options: Options) -> list[Row]:
    """Return the rows of a file, each checked."""
    found = []
    kinds: dict[type, tuple[int, Any]] = {}  # types of labels in JSON -> the first line and label
    for line, cells in table:
        where = f"{path}, line {line}"
        for name in (*texts, *([options.label] if labelled else [])):
            if name not in cells:
                option = "--text" if name in texts else "--label"
                if name in table[0].cells:  # of JSON, whose lines may have other fields
                    raise UserError(f"{where}: there is no {shown(name)}{_others(cells, alone='')}: mend the line.")
                raise UserError(f"{path} has no column {shown(name)}{_others(table[0].cells)}: give {option}.")
        row = tuple(_text(cells[name], name, where) for name in texts)
        label = None
        if labelled:
            value = cells[options.label]
            kinds.setdefault(type(value), (line, value))
            if len(kinds) > 1 and {*kinds} != {int, float}:
                before = next(known for kind, known in kinds.items() if kind is not type(value))
                raise UserError(
                    f"{where}: the label {shown(value)} is of another type than {shown(before[1])} of line "
                    f"{before[0]}: write all alike."
                )
            label = _label(value, where, options)
        found.append(Row(row, label, line))
    return found


def _text(value: Any, name: str, where: str) -> str:
    if not isinstance(value, str) or _HALF.search(value):
        raise UserError(
            f"{where}: {shown(name)} is {shown(value)}, but a text is a string of whole characters: mend the line."
        )
    text = value.strip()  # the corpus' text processing says what becomes of white space within
    if not any(map(str.isprintable, text)):  # zero-width spaces are not printed
        raise UserError(f"{where}: there is no text in {shown(name)}: fill it, or leave the line out.")
    if len(text) > LONGEST:
        raise UserError(f"{where}: {shown(name)} has {len(text):,} characters, more than {LONGEST:,}: cut it.")
    return text


def _label(value: Any, where: str, options: Options) -> Labels:
    if options.kind == "regression":
        return repr(_number(value, where))
    if options.kind == "multi-label":
        values = value.split(options.separator) if isinstance(value, str) else value
        if not isinstance(values, list):
            raise UserError(f"{where}: the labels are {shown(value)}: write a list of names.")
        names = [_name(one, where) for one in values if not isinstance(one, str) or one.strip()]
        for name in names:
            _check_separator(name, where, options)
        return tuple(dict.fromkeys(names))
    return _name(value, where)


def _name(value: Any, where: str) -> str:
    """Return the name of a class; a whole number and a truth value of JSON are names too."""
    if isinstance(value, bool):
        value = "true" if value else "false"
    if isinstance(value, int):
        value = str(value)
    if isinstance(value, list):
        raise UserError(
            f"{where}: the label {shown(value)} is a list: write names, and give --multi-label if a text has several."
        )
    if not isinstance(value, str):
        raise UserError(
            f"{where}: the label is {shown(value)}, which is no name: write one, or give --regression for numbers."
        )
    name = value.strip()
    check_name(name, where)
    return name


def check_name(name: str, where: str) -> None:
    """Raise a `UserError` for what cannot be the name of a class."""
    if not name:
        raise UserError(f"{where}: there is no label: fill it, or leave the line out.")
    if len(name) > _LONGEST_LABEL or not name.isprintable() or name in (*FAIRSEQ_SYMBOLS, MASK):
        raise UserError(
            f"{where}: {shown(name)} cannot be the name of a class: give one of at most {_LONGEST_LABEL} printed "
            "characters, and no special symbol."
        )


def _check_separator(name: str, where: str, options: Options) -> None:
    if options.separator in name:  # `tupe predict` writes several names with the separator between them
        raise UserError(
            f"{where}: the label {shown(name)} has the separator {shown(options.separator)} in it: give another "
            "--separator, or rename the label."
        )


def _number(value: Any, where: str) -> float:
    text = value if isinstance(value, str) else "" if isinstance(value, bool) else json.dumps(value)
    number = float(text) if _NUMBER.fullmatch(text.strip()) else math.nan
    if not abs(number) <= _GREATEST:
        raise UserError(
            f"{where}: the label is {shown(value)}, but --regression needs a number of at most {_GREATEST:g}, such as "
            "3.5."
        )
    return number


def _hold_out(path: Path, rows: dict[str, list[Row]]) -> None:
    """Hold out one of ten training rows, at least one, by a hash of the texts: rows of the same words stay together."""

    def digest(row: Row) -> bytes:
        texts = "\n".join(" ".join(text.split()) for text in row.texts)
        return hashlib.sha256(texts.encode("utf-8", "surrogatepass")).digest()

    digests = [digest(row) for row in rows["train"]]
    chosen = [found[0] % _HELD_OUT == 0 for found in digests]
    if not any(chosen):  # as it happens with few rows
        least = min(digests)
        chosen = [found == least for found in digests]
    if all(chosen):
        raise UserError(f"{path} has too few different texts ({len({*digests})}) to hold some out: give --valid FILE.")
    every = rows["train"]
    rows["train"] = [row for row, out in zip(every, chosen) if not out]
    rows["valid"] = [row for row, out in zip(every, chosen) if out]


def _several(label: Labels | None) -> tuple[str, ...]:
    return label if isinstance(label, tuple) else () if label is None else (label,)


def _classes(rows: list[Row], path: Path, options: Options, tokens: bool) -> list[str]:
    """Return the classes of the training rows in the order of their names, of numbers in that of the numbers."""
    counts = Counter(name for row in rows for name in _several(row.label))
    if len(counts) > _CLASSES or (not tokens and len(counts) > max(100, len(rows) // 2)):
        other = (
            "--columns for those of the words and their classes"
            if tokens
            else "--regression if they are numbers, or --label for the column of the classes"
        )
        raise UserError(f"{path} has {len(counts):,} different labels in {len(rows):,} rows: give {other}.")
    least = 1 if options.kind == "multi-label" else 2
    if len(counts) < least:
        there = f"only the label {shown(next(iter(counts)))}" if counts else "no label"
        raise UserError(f"{path} has {there} in its training rows: there is nothing to tell apart.")
    if all(re.fullmatch(r"\d{1,9}", name, re.ASCII) for name in counts):
        return sorted(counts, key=lambda name: (int(name), name))
    return sorted(counts)


def _check_classes(path: Path, rows: list[Row], classes: Iterable[str], options: Options) -> None:
    known = {*classes}
    for row in rows:
        unknown = next((name for name in _several(row.label) if name not in known), None)
        if unknown is not None:
            whose = "--labels names" if options.labels else "the training rows have"
            number = options.kind == "class" and re.fullmatch(r"-?\d*\.\d+", unknown, re.ASCII)
            raise UserError(
                f"{path}, line {row.line}: the label {shown(unknown)} is none of the {len(known)} that {whose} "
                f"({', '.join(sorted(known))[:200]}): mend it, or name all by --labels"
                f"{', or give --regression if they are numbers' if number else ''}."
            )


def _scaled(task: Task, rows: dict[str, list[Row]], path: Path) -> tuple[Task, dict[str, list[Row]]]:
    """Return the task and its rows with the scores of the training file scaled to 0 .. 1."""
    scores = [float(row.label) for row in rows["train"]]
    offset, scale = min(scores), max(scores) - min(scores)
    if scale < 1 / _GREATEST:
        raise UserError(f"{path} has the label {offset:g} in all its training rows: there is nothing to tell apart.")
    for split in task.splits:
        if split.labelled:
            rows[split.name] = [
                replace(row, label=repr((float(row.label) - offset) / scale)) for row in rows[split.name]
            ]
    return replace(task, offset=offset, scale=scale), rows
