"""Makes a word-order task of a text, in CoLA's file format: is a sentence as written, or are two neighbours swapped?

Example: tupe word-order runs/text/finetuning.txt runs/glue, then tupe prepare-glue runs/glue CORPUS OUT CoLA --partial
"""

import argparse
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("text", type=Path, metavar="TEXT", help="a text file, a paragraph a line")
    add("glue", type=Path, metavar="GLUE_DIR", help="gets CoLA/train.tsv, CoLA/dev.tsv, CoLA/test.tsv")
    help_ = "longer sentences are left out (default: %(default)s)"
    add("--max-words", type=int, default=20, metavar="N", help=help_)
    add("--seed", type=int, default=1, help="seed of the swaps and the order (default: 1)")


def run(args: argparse.Namespace) -> None:
    from tupe.data.python_docs import split_sentences
    from tupe.data.word_order import write_word_order
    from tupe.files import own, read_text, sha256

    lines = read_text(args.text, "a text editor").splitlines()
    sentences = [sentence for line in lines for sentence in split_sentences(line)]
    sentences = [sentence for sentence in sentences if len(sentence.split()) <= args.max_words]
    folder = args.glue / "CoLA"
    with own(folder, "tupe word-order", {"text": sha256(args.text), "max_words": args.max_words, "seed": args.seed}):
        for name, rows in write_word_order(sentences, folder, seed=args.seed).items():
            print(f"{folder / name}.tsv: {rows:,} sentences, half of them with two words swapped")
