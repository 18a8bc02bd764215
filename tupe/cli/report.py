"""Puts models on one HTML page: equations, numbers and figures. It has no script and loads nothing.

Example: tupe report report.html TUPE-R=tupe_base/checkpoint_last.pt BERT-A=bert_a_base/checkpoint_last.pt \\
             --runs TUPE-R=tupe_base BERT-A=bert_a_base --against BERT-A --glue TUPE-R=runs/glue/tupe_base --data DATA
"""

import argparse
from pathlib import Path

from tupe.cli._labels import open_encoders, read_runs, split_label
from tupe.cli._text import add_text
from tupe.util import check_new


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("out", metavar="OUT", type=Path, help="the page, .html")
    some = {"type": split_label, "nargs": "+"}
    add("checkpoints", **some, metavar="[NAME=]CHECKPOINT", help="the name defaults to the model and its fields")
    add("--runs", **some, default=[], metavar="[NAME=]RUN", help="folders of runs, or their logs, for the curves")
    add("--against", metavar="NAME", help="a run: say when the others reach the validation loss that it ends with")
    add("--glue", **some, default=[], metavar="[NAME=]SWEEP", help="sweeps for the table")
    add("--length", type=int, default=128, metavar="N", help="positions, tokens of a sequence (default: 128)")
    add_text(parser, of="words and positions, ranks")


def run(args: argparse.Namespace) -> None:
    from tupe.analysis.page import write_page
    from tupe.analysis.text import read_tokens
    from tupe.experiments.formats import as_text, failures
    from tupe.experiments.table import by_label

    check_new(args.out)
    encoders = open_encoders(args.checkpoints)
    logs = read_runs(args.runs)
    rows = by_label(args.glue)
    every = [row for of_system in rows.values() for row in of_system]
    tables = {}
    if every:
        text = "For each learning rate the median of the seeds, then the best rate; ± is the deviation over the seeds."
        tables["Fine-tuning"] = " ".join([text, *failures(every)]), as_text(every)
    lengths = [min(args.length, encoder.args.max_positions) for encoder in encoders]
    texts = [
        read_tokens(encoder, args.data, length, args.sequences or 8, args.text)
        for encoder, length in zip(encoders, lengths)
        if args.data is not None
    ]
    write_page(
        args.out,
        encoders,
        length=args.length,
        texts=texts,
        logs=logs,
        against=args.against,
        tables=tables,
    )
    print(f"report: {args.out} ({args.out.stat().st_size / 1000:,.0f} kB)")
