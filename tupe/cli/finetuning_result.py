"""Prints the result of a fine-tuning run in one line, and writes it to result.json in the run's folder."""

import argparse
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", metavar="RUN", type=Path, help="folder of the run (checkpoint.save_dir)")
    parser.add_argument("--test", metavar="TASK", default="", help="evaluate on the test sets of this task: XNLI, ...")
    parser.add_argument("--model", metavar="NAME", default="", help="what the model is called")


def run(args: argparse.Namespace) -> None:
    from tupe.experiments.result import finetuning_result

    print(finetuning_result(args.run, args.test, args.model).sentence(args.run))
