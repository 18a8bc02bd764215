"""Arguments of the commands that draw what one checkpoint holds."""

from __future__ import annotations

import argparse


def add_checkpoint(parser: argparse.ArgumentParser, kind: str) -> None:
    """Adds the checkpoint, which is of `kind`, its name and the picture."""
    add = parser.add_argument
    add("checkpoint", help=kind)
    add("--name", default="", help="what the figure calls it (default: the model, with the fields that were given)")
    add("--output", required=True, metavar="FILE", help="file of the picture: .png, .pdf, .svg, ...")
