"""Predicts test sets with a fine-tuned checkpoint: GLUE's as its server takes them, answers as SQuAD and XTREME do.

Of questions, OUT gets SPLIT.json and SPLIT.nbest.json, and the scores are printed where the answers are known.
Example: tupe predict runs/squad/checkpoint_best.pt data/squad predictions --splits test-de test-zh
"""

from __future__ import annotations

import argparse
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the checkpoint, the prepared data, the folder, and what is asked of answers."""
    add = parser.add_argument
    add("checkpoint", type=Path, help="fine-tuned on the task: checkpoint_best.pt of its best run")
    add("data", type=Path, help="the prepared task: a folder of prepare-glue, such as data/glue/RTE, or of prepare-qa")
    add("out", type=Path, metavar="OUT", help="folder of the files")
    add("--partial", action="store_true", help="GLUE: take test sets that do not have as many rows as published")
    add("--splits", nargs="+", default=[], metavar="SPLIT", help="questions: which (default: all test sets)")
    for name, what in (("doc-stride", "pieces from window to window"), ("max-answer", "pieces of an answer at most")):
        add(f"--{name}", type=int, metavar="N", help=f"questions: {what} (default: as in fine-tuning)")


def run(args: argparse.Namespace) -> None:
    """Writes the files and prints where they are."""
    import json

    from tupe.checkpoints.safe_load import safe_load
    from tupe.finetuning.answers import answers_questions, predict_answers
    from tupe.finetuning.predict import predict

    holds_questions = any(args.data.glob("*/report.json"))
    if not holds_questions and not answers_questions(safe_load(args.checkpoint)):
        for path in predict(args.checkpoint, args.data, args.out, args.partial):
            print(f"predictions: {path}")
        return
    settings = {"doc_stride": args.doc_stride, "max_answer": args.max_answer}
    settings = {name: value for name, value in settings.items() if value is not None}
    for split, scores in predict_answers(args.checkpoint, args.data, args.out, args.splits, **settings).items():
        print(f"{split}: {json.dumps(scores) if scores else 'its answers are not known'}")
    print(f"predictions: {args.out}")
