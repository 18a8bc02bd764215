"""Make tables and figures from the records of a study: update the documents, or print one table.

A document has marks around each table: `<!-- study cpu pretraining -->` and `<!-- end -->`.
Example: python -m lab.report --size length --print longer
"""

import argparse
import functools
import re
import textwrap
from pathlib import Path

from lab.design import read_design
from lab.figures import plot_curves, plot_longer, plot_scores, plot_starts
from lab.records import read_records
from lab.tables import BLOCKS, Results
from tupe.util import UserError

PAGES = ("results", "measurements/study", "measurements/length", "measurements/warm_start")
DOCUMENTS = tuple(Path(__file__).parents[1] / f"docs/{page}.md" for page in PAGES)
_MARKS = re.compile(r"(<!-- study (?P<study>\S+) (?P<block>\S+) -->\n).*?(?P<end><!-- end -->)", re.DOTALL)

#: Name of a mark in a document -> the function that draws its figure, the title, and the suffix of the file's name.
FIGURES = {
    "curves": (plot_curves, "Validation loss of all systems", ""),
    "started": (plot_starts, "Validation loss of short runs by how they start", "_starts"),
    "lengthened": (plot_longer, "Loss of the same masked tokens in windows of growing length", "_longer"),
    "scores": (plot_scores, "Scores of the fine-tuned checkpoints against their validation loss", "_scores"),
}


def read_results(size: str, records: Path) -> Results:
    """Return the records of a study; `records` is the folder of all studies."""
    design = read_design(size)
    return Results(design, read_records(records / design.name, design))


def render(document: Path, records: Path, size: str = "cpu") -> list[Path]:
    """Write the blocks between marks, and the figures in `images` next to the document; return the written files.

    A mark names a study, or several joined by `+`: one in `configs/study`, or the file `size`.

    Raises:
        UserError: the document shows a study without records, so that its tables would be lost.
    """
    read = functools.cache(lambda study: read_results(size if Path(size).stem == study else study, records))
    written = [document]

    def block(match: re.Match) -> str:
        study, name = match["study"], match["block"]
        studies = [read(one) for one in study.split("+")]
        if not studies[0].records and re.search(r"^(\||!\[)", match[0], re.MULTILINE):
            raise UserError(f"No records of {study} in {records}, so {document} would lose its tables. Set --records.")
        if name in FIGURES:
            plot, title, ending = FIGURES[name]
            picture = document.parent / "images" / f"study_{study}{ending}.png"
            drawn = plot(*studies, picture)
            written.extend([picture] if drawn else [])
            lines = [f"![{title}](images/{picture.name})"] if drawn else ["No picture yet."]
        else:
            lines = BLOCKS[name](*studies)
        lines = [line if line.startswith(("|", "!")) else textwrap.fill(line, 100) for line in lines]
        return "\n".join([match[1], *lines, "", match["end"]])

    document.write_text(_MARKS.sub(block, document.read_text(encoding="utf-8")), encoding="utf-8")
    return written


def add_size(parser: argparse.ArgumentParser) -> None:
    """Add the design and the folder of the records."""
    add = parser.add_argument
    add("--size", default="cpu", help="name in configs/study, or a file of your own, my.yaml (default: %(default)s)")
    add("--records", type=Path, default=Path("docs/results/runs"), help="folder of the records (default: %(default)s)")


def main() -> None:
    parser = argparse.ArgumentParser("lab.report", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    add_size(parser)
    parser.add_argument("--document", type=Path, help="default: the pages of docs/ that have marks")
    parser.add_argument("--print", choices=BLOCKS, help="print this table of --size instead")
    args = parser.parse_args()
    if args.print:
        print("\n".join(BLOCKS[args.print](read_results(args.size, args.records))))
        return
    for document in [args.document] if args.document else DOCUMENTS:
        for path in render(document, args.records, args.size):
            print(f"written: {path}")


if __name__ == "__main__":
    main()
