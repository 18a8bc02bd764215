"""Turns a folder of Hugging Face Transformers, written by `tupe export`, back into a checkpoint of fairseq.

The model may have been trained further in the meantime: the checkpoint holds it as it is now.
Example: tupe import tupe-base checkpoints/tupe_base.pt
"""

from __future__ import annotations

import argparse
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", type=Path, metavar="OUT", help="folder that `tupe export` or save_pretrained wrote")
    parser.add_argument("checkpoint", type=Path, help="file to write, a new one, for --restore-file")


def run(args: argparse.Namespace) -> None:
    """Writes the checkpoint, and says what in it is new."""
    from tupe.files import check_new

    check_new(args.checkpoint)
    from tupe.checkpoints.from_transformers import import_transformers

    new = import_transformers(args.folder, args.checkpoint)
    if new:
        print("note: the folder has no language-model head, so the checkpoint's is untrained")
    print(f"wrote {args.checkpoint}; train on from it with --restore-file, or load it by TupeModel.from_pretrained")
