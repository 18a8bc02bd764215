"""Writes a task's test-set predictions as the GLUE server takes them: CoLA.tsv, MNLI-m.tsv and so on in OUT.

AX is predicted by a checkpoint of MNLI.
Example: tupe glue-predict runs/glue/tupe_base/RTE/lr_3e-05/seed_2/checkpoint_best.pt data/glue/RTE submission
"""

from __future__ import annotations

import argparse
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the checkpoint, the prepared task and the folder."""
    add = parser.add_argument
    add("checkpoint", type=Path, help="fine-tuned on the task: checkpoint_best.pt of its best run")
    add("data", type=Path, help="the prepared task: a folder that scripts/prepare_glue.sh made, such as data/glue/RTE")
    add("out", type=Path, metavar="OUT", help="folder of the files")
    add("--partial", action="store_true", help="take test sets that have not as many rows as were published")


def run(args: argparse.Namespace) -> None:
    """Writes the files and prints where they are."""
    from tupe.finetuning.predict import predict

    for path in predict(args.checkpoint, args.data, args.out, args.partial):
        print(f"predictions: {path}")
