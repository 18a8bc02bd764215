"""Files of documents between two steps."""

from collections.abc import Iterator
from pathlib import Path

SPLITS = ("train", "valid")
# Surrogates, which JSON can spell and which stand for bytes that were no UTF-8, are read as they were written.
_ERRORS = "surrogatepass"


def lines_as_text(lines: list[str]) -> bytes:
    """Return a document in a file: its lines, then an empty line."""
    return ("\n".join(lines) + "\n\n").encode("utf-8", _ERRORS)


def read(path: Path) -> Iterator[list[str]]:
    """Return the documents of a file of texts by `lines_as_text`."""
    with path.open(encoding="utf-8", newline="\n", errors=_ERRORS) as file:
        lines: list[str] = []
        for line in file:
            if line == "\n":
                yield lines
                lines = []
            else:
                lines.append(line[:-1])
