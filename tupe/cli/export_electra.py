"""Writes the discriminator of an electra_... checkpoint as the plain model of its system.

Example: tupe export-electra checkpoints/electra_tupe_base/checkpoint_last.pt checkpoints/discriminator.pt
Fine-tuning does not need it: it takes the discriminator from an electra_... checkpoint by itself.
"""

import argparse
from pathlib import Path

from tupe.util import check_new


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", type=Path, metavar="IN", help="checkpoint of a model with a generator")
    parser.add_argument("target", type=Path, metavar="OUT", help="file to write, a new one")


def run(args: argparse.Namespace) -> None:
    from tupe.checkpoints.edit import export_discriminator

    check_new(args.target)
    name = export_discriminator(args.source, args.target)
    print(f"wrote {args.target}, a {name} without a language-model head")
