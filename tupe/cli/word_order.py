"""Makes a task for word order of a text, in CoLA's file format: as written, or with two neighbouring words swapped.

Example: tupe word-order runs/text/finetuning.txt runs/glue, then tupe prepare-glue runs/glue CORPUS OUT CoLA --partial
"""

from __future__ import annotations

import argparse
from pathlib import Path

from tupe.errors import UserError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the text and the folder."""
    parser.add_argument("text", type=Path, metavar="TEXT", help="a text file, a paragraph a line")
    parser.add_argument("glue", type=Path, metavar="GLUE_DIR", help="gets CoLA/train.tsv, CoLA/dev.tsv, CoLA/test.tsv")
    parser.add_argument(
        "--max-words", type=int, default=20, metavar="N", help="longer sentences are left out (default: %(default)s)"
    )
    parser.add_argument("--seed", type=int, default=1, help="of the swaps and the order (default: %(default)s)")


def run(args: argparse.Namespace) -> None:
    """Writes the files and prints what is in them."""
    from tupe.data.python_docs import split_sentences
    from tupe.data.word_order import write_word_order

    try:
        lines = args.text.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{args.text} cannot be read as text: {error}.") from None
    sentences = [sentence for line in lines for sentence in split_sentences(line)]
    sentences = [sentence for sentence in sentences if len(sentence.split()) <= args.max_words]
    for name, rows in write_word_order(sentences, args.glue / "CoLA", seed=args.seed).items():
        print(f"{args.glue / 'CoLA' / name}.tsv: {rows:,} sentences, half of them with two words swapped")
