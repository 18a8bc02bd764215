"""Predicts test sets with a fine-tuned checkpoint: GLUE's as its server takes them, answers as SQuAD and XTREME do.

OUT gets SPLIT.json and SPLIT.nbest.json for questions, and TASK.tsv for texts. The scores are printed where the answers
or labels are known.
Example: tupe predict runs/squad/checkpoint_best.pt data/squad predictions --splits test-de test-zh
"""

import argparse
from pathlib import Path

#: Options of windows and answers, which are fields of the task.
WINDOWS = {
    "doc_stride": "tokens from window to window",
    "max_query": "tokens of a question at most",
    "max_answer": "tokens of an answer at most",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("checkpoint", metavar="CHECKPOINT", type=Path, help="checkpoint_best.pt of the best run of the task")
    add("data", metavar="DATA", type=Path, help="prepared task, as data/glue/RTE, or questions")
    add("out", type=Path, metavar="OUT", help="folder of the files")
    add("--partial", action="store_true", help="GLUE: take test sets that do not have as many rows as published")
    add("--splits", nargs="+", default=[], metavar="SPLIT", help="questions: which (default: all test sets)")
    for name, what in WINDOWS.items():
        option = f"--{name.replace('_', '-')}"
        add(option, type=int, metavar="N", help=f"questions: {what} (default: as in fine-tuning)")


def run(args: argparse.Namespace) -> None:
    import json

    from tupe.inference.answers import predict_answers
    from tupe.inference.predict import predict

    if any(args.data.glob("*/report.json")):
        settings = {name: getattr(args, name) for name in WINDOWS if getattr(args, name) is not None}
        for split, scores in predict_answers(args.checkpoint, args.data, args.out, args.splits, **settings).items():
            print(f"{split}: {json.dumps(scores) if scores else 'its answers are not known'}")
        print(f"predictions: {args.out}")
        return
    for path, scores in predict(args.checkpoint, args.data, args.out, args.partial).items():
        print("".join(f"{name} {value:.2f}, " for name, value in scores.items()) + f"predictions: {path}")
