"""Turns a folder of Hugging Face Transformers, written by `tupe export`, back into a checkpoint of fairseq.

The model may have been trained further in the meantime: the checkpoint holds it as it is now.
Example: tupe import tupe-base checkpoints/tupe_base.pt
"""

import argparse
from pathlib import Path

from tupe.cli._types import new_file


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", type=Path, metavar="OUT", help="folder that `tupe export` or save_pretrained wrote")
    parser.add_argument("checkpoint", type=new_file, help="file to write, a new one, for --restore-file")


def run(args: argparse.Namespace) -> None:
    from tupe.checkpoints.from_transformers import import_transformers

    new = import_transformers(args.folder, args.checkpoint)
    if new:
        print("note: the folder has no language-model head, so the checkpoint's is untrained")
    print(f"wrote {args.checkpoint}; train on from it with --restore-file, or load it by TupeModel.from_pretrained")
