"""Translates text, line by line, by beam search.

Several checkpoints are an ensemble; one with --average K is the mean of its run's last K.
Example: tupe translate checkpoints/run/checkpoint_best.pt --data DATA --input test.en --output test.de
"""

import argparse
import sys
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("checkpoints", type=Path, metavar="CHECKPOINT", nargs="+", help="written by scripts/translate_train.sh")
    add("--input", type=Path, metavar="FILE", help="text, one sentence a line (default: standard input)")
    add("--output", type=Path, metavar="FILE", help="translations (default: standard output)")
    help_ = "prepared data, for its vocabulary (default: the path in the checkpoint, which may be relative)"
    add("--data", type=Path, metavar="DATA", help=help_)
    add("--average", type=int, metavar="K", help="take the mean of the last K checkpoints")
    add("--beam", type=int, default=10, metavar="N", help="hypotheses at a time (default: %(default)s)")
    add("--length-penalty", type=float, default=0.6, metavar="A", help="exponent alpha (default: %(default)s)")
    add("--normalization", choices=["gnmt", "fairseq"], default="gnmt", help="scores / ((5 + n) / 6)^A, or / n^A")
    help_ = "tokens a batch, times the beam (default: %(default)s)"
    add("--max-tokens", type=int, default=40960, metavar="N", help=help_)


def run(args: argparse.Namespace) -> None:
    from tqdm import tqdm

    from tupe.data.translation.parallel_text import lines
    from tupe.files import atomic
    from tupe.inference.translate import Search, Translator

    search = Search(args.beam, args.length_penalty, args.normalization)
    translate = Translator(args.checkpoints, args.data, args.average, search, args.max_tokens)
    text = list(lines(args.input))
    found = tqdm(translate(text), "translating", len(text), disable=None, unit=" lines")
    if args.output is None:
        for line in found:
            print(line, flush=True)
    else:
        with atomic(args.output) as unfinished, unfinished.open("w", encoding="utf-8", newline="\n") as file:
            file.writelines(f"{line}\n" for line in found)
    empty = sum(not line for line in text)
    print(f"{len(text):,} lines translated" + (f", {empty:,} of them empty" if empty else ""), file=sys.stderr)
