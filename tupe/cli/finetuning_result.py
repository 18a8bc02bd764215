"""Prints the result of a fine-tuning run in one line, and writes it to result.json in the run's folder."""

from __future__ import annotations

import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", help="folder of the run (checkpoint.save_dir)")


def run(args: argparse.Namespace) -> None:
    """Prints metric, best epoch and folder."""
    from tupe.finetuning.result import finetuning_result

    print(finetuning_result(args.run).sentence(args.run))
