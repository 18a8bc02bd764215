"""Read the rows of users' files: TSV, CSV, JSON lines, or columns of words and labels (CoNLL).

Nothing is repaired or left out in silence: an error names the file and the line that cannot be read.
"""

import csv
import json
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from tupe.data.corpus.reader import DAMAGED, open_packed, refuse_binary
from tupe.data.glue.reader import Row
from tupe.errors import UserError

#: Format -> the endings of its files.
FORMATS = {
    "tsv": (".tsv", ".tab"),
    "csv": (".csv",),
    "jsonl": (".jsonl", ".json"),
    "conll": (".conll", ".conllu", ".bio", ".iob", ".iob2"),
}
_PACKED = (".xz", ".gz", ".bz2")
LONGEST = 1_000_000  # characters of a cell
_LONGEST_LINE = 1 << 24  # bytes
_DOCUMENT = "-DOCSTART-"
_CONLLU = 10  # columns


class Record(NamedTuple):
    """A row of a file."""

    line: int  # where it begins, from 1
    cells: dict[str, Any]  # by the names of the columns; of JSON any values


def format_of(path: Path) -> str:
    """Return the format that a file's name says. Raise `UserError` if it says none."""
    name = path.name.lower()
    name = next((name.removesuffix(ending) for ending in _PACKED if name.endswith(ending)), name)
    found = [format_ for format_, endings in FORMATS.items() if name.endswith(endings)]
    if not found:
        endings = ", ".join(ending for endings in FORMATS.values() for ending in endings)
        raise UserError(f"{path} does not say what it is by its name ({endings}): give --format.")
    return found[0]


def records(path: Path, format_: str, delimiter: str = ",") -> Iterator[Record]:
    """Yield the rows of a TSV, a CSV or JSON lines.

    Raises:
        UserError: if the file is missing, not UTF-8 or not of that format, such as lines of another length than the
            first, the same name twice, or an empty line between rows of one column.
    """
    if format_ == "jsonl":
        yield from _objects(path)
        return
    rows = _separated(path, delimiter) if format_ == "csv" else _tabbed(path)
    _, columns = next((row for row in rows if row[1]), (0, []))
    if not columns:
        raise UserError(f"{path} is empty: its first line should name the columns.")
    if format_ == "tsv" and all(re.fullmatch('".*"', name) for name in columns):
        raise UserError(
            f'{path} has its columns in quotes, and in a TSV a " is text: give --format csv --delimiter tab.'
        )
    twice = next((name for i, name in enumerate(columns) if name and name in columns[:i]), None)
    if twice is not None:
        raise UserError(f"{path}, line 1: two columns are called {shown(twice)}: rename one.")
    empty = 0  # the first of the empty lines since the last row
    for line, cells in rows:
        if not cells:
            empty = empty or line
            continue
        if empty and len(columns) == 1:
            raise UserError(
                f"{path}, line {empty} is empty, but a row of the one column {shown(columns[0])} stands there: fill "
                "it, or take the line out."
            )
        empty = 0
        if cells == columns:
            raise UserError(f"{path}, line {line}: the names of the columns are there again: take the line out.")
        if len(cells) != len(columns):
            quoted = format_ == "tsv" and any(cell.startswith('"') for cell in cells)
            hint = ' (in a TSV a " is text; --format csv --delimiter tab reads it as a quote)' if quoted else ""
            raise UserError(
                f"{path}, line {line}: there are {len(cells)} cells, but the first line names {len(columns)} "
                f"columns{hint}: mend the line."
            )
        yield Record(line, dict(zip(columns, cells)))


def _tabbed(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield lines and cells, none of an empty line."""
    for number, line in _lines(path):
        text = line.rstrip("\r\n")
        yield number, text.split("\t") if text else []


def _separated(path: Path, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Yield rows with the lines where they begin, without a cell for an empty line."""
    csv.field_size_limit(LONGEST + 1)  # of this process; the default is smaller
    reader = csv.reader((line for _, line in _lines(path)), delimiter=delimiter, strict=True)
    begin = 1
    try:
        for cells in reader:
            yield begin, cells
            begin = reader.line_num + 1
    except csv.Error as error:
        raise UserError(
            f"{path}, line {begin}: no row of a CSV begins there ({str(error).partition(' - ')[0]}): look for a quote "
            'that is not closed; one within quotes is written "".'
        ) from None


def _objects(path: Path) -> Iterator[Record]:
    for number, line in _lines(path):
        if not line.strip():
            continue
        try:
            content = json.loads(line, object_pairs_hook=partial(_once, f"{path}, line {number}"))
        except UserError:
            raise
        except (ValueError, RecursionError):
            raise UserError(f"{path}, line {number}: there is no JSON: write one object a line.") from None
        if not isinstance(content, dict):
            raise UserError(f"{path}, line {number}: there is no object {{...}}: write one a line.")
        yield Record(number, content)


def _once(where: str, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise UserError(f"{where}: {shown(twice)} is there twice: rename one.")
    return content


def sentences(path: Path, columns: tuple[int, int] | None = None) -> Iterator[Row]:
    """Yield the sentences of a file of words and labels; they have no labels where there is one column.

    `columns` are the numbers of the word's and the label's, from 1: by default the first and the last, in CoNLL-U 2
    and 4.

    Raises:
        UserError: if the file is missing, not UTF-8, or has lines with other numbers of columns.
    """
    words: list[str] = []
    labels: list[str] = []
    begin = width = 0
    tabs = _has_tabs(path)
    for number, line in _lines(path):
        text = line.strip("\r\n")
        if not text.strip():
            if words:
                yield Row(tuple(words), tuple(labels) or None, begin)
            words, labels = [], []
            continue
        if tabs and text.startswith("#") and "\t" not in text:  # a comment of CoNLL-U; a word may begin so too
            continue
        cells = [" ".join(cell.split()) for cell in text.split("\t")] if tabs else text.split()
        if cells[0] == _DOCUMENT:
            continue
        if not width:
            width = len(cells)
            word, label = _places(path, columns, width)
        if len(cells) != width:
            raise UserError(
                f"{path}, line {number}: there are {len(cells)} columns, but {width} before: mend the line."
            )
        if width == _CONLLU and not cells[0].isdecimal():  # a range of words or an empty node
            continue
        if not cells[word]:
            raise UserError(f"{path}, line {number}: there is no word in column {word + 1}: mend the line.")
        begin = begin if words else number
        words.append(cells[word])
        labels += [cells[label]] if label is not None else []
    if words:
        yield Row(tuple(words), tuple(labels) or None, begin)
    if not begin:
        raise UserError(f"{path} has no words in it: it is empty, or another file.")


def _has_tabs(path: Path) -> bool:
    """Tell whether the first line that is no comment has tabs between its columns."""
    filled = (line.strip("\r\n") for _, line in _lines(path) if line.strip())
    return next(("\t" in line for line in filled if not line.startswith("#") or "\t" in line), False)


def _places(path: Path, columns: tuple[int, int] | None, width: int) -> tuple[int, int | None]:
    """Return which columns hold the word and its label, from 0."""
    if width == 1 and columns is None:
        return 0, None
    word, label = columns or ((2, 4) if width == _CONLLU else (1, width))
    if max(word, label) > width:
        raise UserError(f"{path} has {width} column(s), but --columns asks for {word} and {label}: give others.")
    return word - 1, label - 1


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the number and the text of each line, unpacked, without a byte order mark."""
    try:
        with open_packed(path) as file:
            refuse_binary(path, file.peek(1 << 12))
            for number, line in enumerate(iter(lambda: file.readline(_LONGEST_LINE + 1), b""), 1):
                if number == 1 and b"\r" in line.rstrip(b"\r\n"):
                    raise UserError(f"{path} has lines that end with CR alone: end them with LF.")
                if len(line) > _LONGEST_LINE:
                    raise UserError(f"{path}, line {number} is longer than {_LONGEST_LINE:,} bytes: divide it.")
                try:
                    yield number, line.decode("utf-8-sig")  # a mark is within a file that was made of several
                except UnicodeDecodeError as error:
                    raise UserError(
                        f"{path}, line {number}: byte {error.start + 1} ({line[error.start]:#04x}) is not UTF-8: save "
                        "the file as UTF-8."
                    ) from None
    except (OSError, *DAMAGED) as error:
        raise UserError(f"{path} cannot be read ({error}): copy it again.") from None


def shown(text: object) -> str:
    """Show a text of a file in a message, cut and in one line."""
    return ascii(text if isinstance(text, str) else json.dumps(text))[:60]
