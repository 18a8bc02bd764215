"""Puts models on one HTML page: equations, numbers and figures that answer to pointer and keyboard. It loads nothing.

Example: tupe report report.html TUPE-R=tupe_base/checkpoint_last.pt BERT-A=bert_a_base/checkpoint_last.pt \\
             --runs TUPE-R=tupe_base BERT-A=bert_a_base --against BERT-A --glue TUPE-R=runs/glue/tupe_base --data DATA
"""

from __future__ import annotations

import argparse
from pathlib import Path

from tupe.cli._labels import check_names, split_label
from tupe.cli._text import add_text
from tupe.errors import UserError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the page, what it is of, and the text."""
    add = parser.add_argument
    add("out", type=Path, help="the page, .html")
    add("checkpoints", nargs="+", metavar="[NAME=]CHECKPOINT", help="the name defaults to the model and its fields")
    add("--runs", nargs="+", default=[], metavar="[NAME=]RUN", help="folders of runs, or their logs, for the curves")
    add("--against", metavar="NAME", help="a run: say when the others reach the validation loss that it ends with")
    add("--glue", nargs="+", default=[], metavar="[NAME=]SWEEP", help="sweeps for the table; of several a curve too")
    add("--cost", metavar="FILE", help="model.json of benchmarks/model.py --output, for a table of times")
    add_text(parser, required=False)


def run(args: argparse.Namespace) -> None:
    """Writes the page and prints where it is, and how large."""
    from tupe.analysis.checkpoint import open_encoder
    from tupe.analysis.cost import cost_rows, read_costs
    from tupe.analysis.curves import read_log
    from tupe.analysis.page import Table, write_page
    from tupe.analysis.text import read_tokens
    from tupe.finetuning.formats import as_text, failures
    from tupe.finetuning.scores import score_curves
    from tupe.finetuning.table import by_label

    if args.text is not None and args.data is None:
        raise UserError("--text needs --data, the folder of the corpus that the model was trained on.")
    encoders = [open_encoder(path, name) for name, path in map(split_label, args.checkpoints)]
    check_names([encoder.shown_as for encoder in encoders])
    runs = [(name or str(path), read_log(path)) for name, path in map(split_label, args.runs)]
    check_names([name for name, _ in runs])
    if args.against not in (None, *dict(runs)):
        raise UserError(
            f"there is no run '{args.against}': --against takes one of {', '.join(dict(runs)) or '--runs'}."
        )
    rows = by_label(map(split_label, args.glue))
    every = [row for of_system in rows.values() for row in of_system]
    tables = []
    if every:
        text = "For each learning rate the median of the seeds, then the best rate; ± is the deviation over the seeds."
        tables.append(Table("Fine-tuning", text, as_text(every), failures(every)))
    if args.cost is not None:
        conditions, records = read_costs(args.cost)
        text = f"Time over that of {records[0]['rival']}, the median of the rounds with quartiles. {conditions}"
        tables.append(Table("Cost", text, cost_rows(records)))
    lengths = [min(args.length, encoder.args.max_positions) for encoder in encoders]
    texts = [
        read_tokens(encoder, args.data, length, args.sequences, args.text)
        for encoder, length in zip(encoders, lengths)
        if args.data is not None
    ]
    write_page(
        args.out,
        encoders,
        length=args.length,
        texts=texts,
        logs=dict(runs),
        against=args.against,
        tables=tables,
        scores=score_curves(rows) if any(len(of_system) > 1 for of_system in rows.values()) else None,
    )
    print(f"report: {args.out} ({args.out.stat().st_size / 1000:,.0f} kB)")
