"""Render tables and figures of studies between the marks of a document that people write.

<!-- study cpu pretraining -->
...
<!-- end -->
"""

import re
import textwrap
from pathlib import Path

from tupe.errors import UserError
from tupe.experiments.study.design import read_design
from tupe.experiments.study.figures import plot_curves, plot_longer, plot_scores, plot_starts
from tupe.experiments.study.records import read_records
from tupe.experiments.study.tables import BLOCKS, Results
from tupe.files import read_text, write_bytes

_MARKS = re.compile(r"(<!-- study (?P<study>\S+) (?P<block>\S+) -->\n)(?P<old>.*?)(?P<end><!-- end -->)", re.DOTALL)

#: Name of a mark in a document -> what draws its picture, the title, and the end of the picture's name.
FIGURES = {
    "curves": (plot_curves, "Validation loss of all systems", ""),
    "started": (plot_starts, "Validation loss of short runs by how they start", "_starts"),
    "lengthened": (plot_longer, "Loss of the same masked tokens in windows of growing length", "_longer"),
    "scores": (plot_scores, "Scores of the fine-tuned checkpoints against their validation loss", "_scores"),
}


def read_results(size: str, records: Path) -> Results:
    """Return the records of a study; `records` is the folder of all studies. Raise a `UserError` if it is a file."""
    if records.exists() and not records.is_dir():
        raise UserError(f"{records} is not a folder: give --records the one where `tupe study` left what it found.")
    design = read_design(size)
    return Results(design, read_records(records / design.name, design))


def render(document: Path, records: Path, size: str = "cpu") -> list[Path]:
    """Render what stands between marks, and figures in `images` beside the document; return the written files.

    A mark names a study: one in `configs/study`, or the file `size`.

    Raises:
        UserError: without marks, for a mark without a table of its name, a damaged record, or a table whose study has
            no records.
    """
    found: dict[str, Results] = {}
    written = [document]

    def block(match: re.Match) -> str:
        study, name = match["study"], match["block"]
        if "<!-- study " in match["old"]:
            raise UserError(f"{document} has the mark '{name}' without its end: write <!-- end --> behind its table.")
        if study not in found:
            found[study] = read_results(size if Path(size).stem == study else study, records)
        results = found[study]
        if not results.records and re.search(r"^(\||!\[)", match["old"], re.MULTILINE):
            raise UserError(
                f"{records / results.design.name} has no records, and what {document} shows of that study would be "
                "lost: give --records the folder where `tupe study` left them."
            )
        if name in FIGURES:
            plot, title, ending = FIGURES[name]
            picture = document.parent / "images" / f"study_{results.design.name}{ending}.png"
            drawn = plot(results, picture)
            written.extend([picture] if drawn else [])
            lines = [f"![{title}](images/{picture.name})"] if drawn else ["There is no picture yet."]
        elif name in BLOCKS:
            lines = BLOCKS[name](results)
        else:
            raise UserError(f"{document} has a mark '{name}': the marks are {', '.join((*FIGURES, *BLOCKS))}.")
        lines = [line if line.startswith(("|", "!")) else textwrap.fill(line, 100) for line in lines]
        return "\n".join([match[1], *lines, "", match["end"]])

    text, filled = _MARKS.subn(block, read_text(document, "you"))
    if not filled:
        raise UserError(f"{document} has no marks to fill: write some, as <!-- study cpu glue --> and <!-- end -->.")
    write_bytes(document, text.encode())
    return written
