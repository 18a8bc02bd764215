"""Prints the folder of the shipped configurations, for `fairseq-hydra-train --config-dir`.

Example: fairseq-hydra-train --config-dir "$(tupe config-dir pretraining)" --config-name base \\
    common.user_dir="$(tupe user-dir)" task.data=DATA
"""

import argparse

from tupe.util import config_dir


def add_arguments(parser: argparse.ArgumentParser) -> None:
    kinds = ("pretraining", "finetuning", "translation", "study")
    parser.add_argument("kind", nargs="?", choices=kinds, help="kind of training (default: all)")


def run(args: argparse.Namespace) -> None:
    print(config_dir(args.kind or ""))
