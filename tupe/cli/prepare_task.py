"""Prepares a task of one's own for fine-tuning: texts or pairs with labels or numbers, or words with labels.

FILE is a TSV, a CSV, JSON lines or, for words, CoNLL's columns; docs/tasks.md shows each.
Example: tupe prepare-task train.csv data/wiki data/reviews --valid dev.csv --test test.csv --text title --label stars
"""

import argparse
from pathlib import Path

from tupe.data.glue.cells import FORMATS
from tupe.util import UserError, available_cores


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("file", type=Path, metavar="FILE", help="the training file")
    add("corpus", type=Path, metavar="CORPUS", help="folder of a prepared corpus or of an imported model")
    add("out", type=Path, metavar="OUT", help="folder to write; the task is called as it")
    add("--valid", type=Path, metavar="FILE", help="development file (default: a tenth of the training rows)")
    add("--test", type=Path, metavar="FILE", help="test file, with labels or without")
    add("--text", nargs="+", default=[], metavar="COLUMN", help="the text's, or the two of a pair (default: text)")
    add("--label", default="label", metavar="COLUMN", help="default: %(default)s")
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument("--multi-label", action="store_true", help="a text has any number of labels")
    kind.add_argument("--regression", action="store_true", help="labels are numbers")
    add("--labels", nargs="+", default=[], metavar="NAME", help="the classes in their order (default: as trained on)")
    add("--separator", default=",", metavar="SIGN", help="between the labels of a cell (default: %(default)s)")
    add("--format", choices=FORMATS, default="", help="default: as the files' names say")
    add("--delimiter", default=",", metavar="SIGN", help="in a CSV; tab: a TSV with quotes (default: %(default)s)")
    add("--columns", metavar="N,N", help="CoNLL: of the word and its label, from 1")
    add("--verify", action="store_true", help="check all checksums of a task that is done")
    add("--workers", type=int, default=available_cores(), metavar="N", help="processes (default: all cores)")


def run(args: argparse.Namespace) -> None:
    from tupe.data.corpus.manifest import Manifest
    from tupe.data.glue.own import Options, prepare_own
    from tupe.data.glue.report import own_lines
    from tupe.data.parallel import pool

    if len(args.text) > 2:
        raise UserError(f"--text names {len(args.text)} columns, but a model reads one text or a pair: give 1 or 2.")
    if len({*args.text}) < len(args.text):
        raise UserError("--text names a column twice: give different ones.")
    delimiter = {"tab": "\t", "\\t": "\t"}.get(args.delimiter, args.delimiter)
    for name, sign in (("delimiter", delimiter), ("separator", args.separator)):
        if len(sign) != 1 or sign in '"\r\n':
            raise UserError(f"--{name} is {sign!r}, not one sign such as a comma: give another.")
    options = Options(
        kind="multi-label" if args.multi_label else "regression" if args.regression else "class",
        text=tuple(args.text),
        label=args.label,
        labels=tuple(args.labels),
        separator=args.separator,
        format=args.format,
        delimiter=delimiter,
        columns=_columns(args.columns),
    )
    files = {"train": args.file, "valid": args.valid, "test": args.test}
    given = {split: path for split, path in files.items() if path is not None}
    with pool(args.workers) as map_:
        content = prepare_own(given, Manifest.load(args.corpus), args.out, options, args.verify, map_)
    print("\n".join(own_lines(content)))
    print(f"data: {args.out}")


def _columns(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    try:
        word, label = (int(part) for part in text.split(","))
    except (ValueError, argparse.ArgumentTypeError):
        raise UserError(f"--columns is {text!r:.40}: give two numbers from 1, such as 1,2.") from None
    if word == label:
        raise UserError(f"--columns is {text}, but words and their labels stand in two: give both.")
    return word, label
