"""Prints the table of sweeps of GLUE or XTREME: the median of the seeds, then the best learning rate.

Example: tupe table TUPE-R=runs/glue/tupe_base runs/glue/bert_a_base --published
"""

import argparse

from tupe.cli._labels import check_names, split_label
from tupe.cli._types import output_file
from tupe.errors import UserError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    help_ = "folder of a sweep; the label defaults to its model and updates"
    add("sweeps", type=split_label, nargs="+", metavar="[LABEL=]OUT", help=help_)
    kinds = ["base", "large", "electra", "xtreme", "roberta", "xlmr"]
    help_ = "add TUPE's rows of a size, DIET's of XTREME, or fairseq's of RoBERTa or XLM-R"
    add("--published", nargs="?", const="base", choices=kinds, help=help_)
    add("--by-language", action="store_true", help="a column for each language too")
    help_ = "default: as the name of --output ends, else markdown"
    add("--format", choices=["markdown", "csv", "json"], help=help_)
    add("--output", type=output_file, metavar="FILE", help="default: the screen")


def run(args: argparse.Namespace) -> None:
    from tupe.experiments.columns import COLUMNS
    from tupe.experiments.formats import as_csv, as_json, markdown
    from tupe.experiments.published import PUBLISHED
    from tupe.experiments.table import read_sweep
    from tupe.files import write_bytes

    rows = [read_sweep(path, label, args.by_language) for label, path in args.sweeps]
    check_names([row.name for row in rows])
    of_languages = {column.name for column in COLUMNS if column.subset.endswith("/")}
    if args.by_language and not any(of_languages & {*row.cells} for row in rows):
        raise UserError("--by-language is for tasks of many languages, but these sweeps have none: leave it out.")
    published = PUBLISHED[args.published] if args.published else []
    if published and not any({*row.cells} & {*other.cells} for row in rows for other in published):
        raise UserError(f"--published {args.published} has none of the columns of these sweeps: give another, or none.")
    rows += published
    formats = {"markdown": markdown, "csv": as_csv, "json": as_json}
    ending = args.output.suffix[1:] if args.output else ""
    text = formats[args.format or (ending if ending in formats else "markdown")](rows)
    if args.output is None:
        print(text)
        return
    write_bytes(args.output, f"{text}\n".encode())
    print(f"table: {args.output}")
