"""Makes tables and figures from the records of a study: updates the documents, or prints one table.

Example: tupe study-report
"""

import argparse
from pathlib import Path

from tupe.cli.study import add_size

DOCUMENTS = (
    Path("docs/results.md"),
    Path("docs/dev/study.md"),
    Path("docs/length.md"),
    Path("docs/dev/length.md"),
    Path("docs/dev/warm_start.md"),
    Path("README.md"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_size(parser)
    either = parser.add_mutually_exclusive_group()
    either.add_argument("--document", type=Path, help=f"default: {', '.join(map(str, DOCUMENTS))}")
    either.add_argument("--print", metavar="TABLE", help="print this table of --size: state, pretraining, shares, ...")


def run(args: argparse.Namespace) -> None:
    from tupe.experiments.study.design import read_design
    from tupe.experiments.study.document import read_results, render
    from tupe.experiments.study.tables import BLOCKS
    from tupe.util import UserError

    read_design(args.size)  # raises for a study that is not there, even if no document names it
    if args.print is None:
        if args.document is None and not DOCUMENTS[0].is_file():
            raise UserError(f"there is no {DOCUMENTS[0]} here: run this in the clone, or give --document or --print.")
        for document in DOCUMENTS if args.document is None else [args.document]:
            for path in render(document, args.records, args.size):
                print(f"written: {path}")
        return
    if args.print not in BLOCKS:
        raise UserError(f"there is no table {args.print}: the tables are {', '.join(BLOCKS)}.")
    if not args.records.exists():
        raise UserError(f"there is no folder {args.records}: give --records the one where `tupe study` left its files.")
    results = read_results(args.size, args.records)
    if not results.records:
        place = args.records / results.design.name
        raise UserError(
            f"{place} has no records: give --records the folder above the one where `tupe study` left them."
        )
    print("\n".join(BLOCKS[args.print](results)))
