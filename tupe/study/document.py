"""Tables and figures of studies in a document that people write: what stands between two marks is made anew.

<!-- study cpu pretraining -->
...
<!-- end -->
"""

from __future__ import annotations

import re
from pathlib import Path

from tupe.errors import UserError
from tupe.files import atomic, read_text
from tupe.study.design import read_design
from tupe.study.figures import plot_curves
from tupe.study.records import read_records
from tupe.study.tables import BLOCKS, Results

_MARKS = re.compile(r"(<!-- study (?P<size>\S+) (?P<block>\S+) -->\n)(?P<old>.*?)(?P<end><!-- end -->)", re.DOTALL)


def read_results(size: str, records: Path) -> Results:
    """The records of a study in the folder of all."""
    design = read_design(size)
    return Results(design, read_records(records / design.name, design))


def render(document: Path, records: Path) -> list[Path]:
    """Makes all that stands between marks anew, and the figures beside it in `images`; returns what was written.

    Raises:
        UserError: for a mark that no table has, or a record that is damaged.
    """
    found: dict[str, Results] = {}
    written = [document]

    def block(match: re.Match) -> str:
        size, name = match["size"], match["block"]
        results = found.setdefault(size, read_results(size, records))
        if name == "curves":
            lines = ["There are no curves yet."]
            if any(run.part == "final" for run in results.records):
                picture = document.parent / "images" / f"study_{results.design.name}.png"
                plot_curves(results, picture)
                written.append(picture)
                lines = [f"![Validation loss of all systems](images/{picture.name})"]
        elif name in BLOCKS:
            lines = BLOCKS[name](results)
        else:
            raise UserError(f"{document} has a mark '{name}': the marks are curves, {', '.join(BLOCKS)}.")
        return "\n".join([match[1], *lines, "", match["end"]])

    text = _MARKS.sub(block, read_text(document, "a person"))
    with atomic(document) as unfinished:
        unfinished.write_text(text, encoding="utf-8")
    return written
