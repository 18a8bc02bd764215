"""Prints the table of sweeps of GLUE or XTREME: the median of the seeds, then the best learning rate.

Example: tupe table TUPE-R=runs/glue/tupe_base runs/glue/bert_a_base --published
"""

import argparse
from pathlib import Path

from tupe.cli._labels import check_names, split_label
from tupe.util import atomic


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    help_ = "folder of a sweep; the label defaults to its model and updates"
    add("sweeps", type=split_label, nargs="+", metavar="[LABEL=]OUT", help=help_)
    kinds = ["base", "large", "electra", "diet", "xtreme", "roberta", "xlmr"]
    help_ = "add TUPE's rows of a size, DIET's of GLUE or XTREME, or fairseq's of RoBERTa or XLM-R"
    add("--published", nargs="?", const="base", choices=kinds, help=help_)
    add("--by-language", action="store_true", help="a column for each language too")
    help_ = "default: as the name of --output ends, else markdown"
    add("--format", choices=["markdown", "csv", "json"], help=help_)
    add("--output", type=Path, metavar="FILE", help="default: the screen")


def run(args: argparse.Namespace) -> None:
    from tupe.experiments.formats import as_csv, as_json, markdown
    from tupe.experiments.published import PUBLISHED
    from tupe.experiments.table import read_sweep

    rows = [read_sweep(path, label, args.by_language) for label, path in args.sweeps]
    check_names([row.name for row in rows])
    rows += PUBLISHED[args.published] if args.published else []
    formats = {"markdown": markdown, "csv": as_csv, "json": as_json}
    ending = args.output.suffix[1:] if args.output else ""
    text = formats[args.format or (ending if ending in formats else "markdown")](rows)
    if args.output is None:
        print(text)
        return
    with atomic(args.output) as part:
        part.write_text(f"{text}\n", encoding="utf-8")
    print(f"table: {args.output}")
