"""Scores translations against a reference by SacreBLEU and chrF, with the signatures.

HYPOTHESES is a text file or the output of fairseq-generate (its D- lines). The reference is the text as it is, not
tokenised: text/test.de of prepared data.
Example: tupe bleu --hypotheses gen.out --reference data/text/test.de --baseline other.out
"""

import argparse
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--hypotheses", type=Path, required=True, metavar="FILE", help="translations, or the log of fairseq-generate")
    add("--reference", type=Path, required=True, metavar="FILE", help="what they are compared with, line by line")
    add("--baseline", type=Path, metavar="FILE", help="another system's, to tell whether the two differ")
    add("--lowercase", action="store_true", help="compare without case; to be said with the score")
    add("--tokenize", default="13a", metavar="NAME", help="tokeniser of SacreBLEU (default: %(default)s)")


def run(args: argparse.Namespace) -> None:
    from tupe.inference.bleu import score

    for line in score(args.hypotheses, args.reference, args.baseline, args.lowercase, args.tokenize):
        print(line)
