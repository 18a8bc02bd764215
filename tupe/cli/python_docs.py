"""Writes a small English corpus: the documentation that every Python carries.

OUT gets pretraining.txt and, of other documents, finetuning.txt: a paragraph a line, an empty line between documents.
Example: tupe python-docs runs/text
"""

import argparse
import platform
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("out", type=Path, metavar="OUT", help="folder of the two files")
    help_ = "documents in finetuning.txt (default: %(default)s)"
    add("--held-out", type=int, default=20, metavar="PERCENT", help=help_)


def run(args: argparse.Namespace) -> None:
    from tupe.data.python_docs import is_held_out, python_documents, write_documents
    from tupe.files import own

    with own(args.out, "tupe python-docs", {"held_out": args.held_out, "python": platform.python_version()}):
        documents = python_documents()
        for name, held_out in (("pretraining.txt", False), ("finetuning.txt", True)):
            part = [document for key, document in documents.items() if is_held_out(key, args.held_out) == held_out]
            write_documents(part, args.out / name)
            words = sum(len(sentence.split()) for document in part for paragraph in document for sentence in paragraph)
            print(f"{args.out / name}: {len(part)} documents, {words:,} words")
