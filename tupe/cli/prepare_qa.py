"""Prepares extractive question answering (SQuAD v1.1, MLQA, XQuAD, TyDiQA-GoldP), with the vocabulary of a corpus.

The splits are train, valid, valid1, ..., test, and test-de, test-fr, ... of a language.
Example: tupe prepare-qa data/wiki data/squad train=train-v1.1.json valid=dev-v1.1.json test-de=xquad.de.json
"""

import argparse
from pathlib import Path

from tupe.cli._labels import split_label
from tupe.data.qa.rules import RULES
from tupe.util import available_cores


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("corpus", type=Path, metavar="CORPUS_MANIFEST", help="manifest.json of a prepared corpus, or its folder")
    add("out", type=Path, metavar="OUT", help="folder of the prepared data")
    add("files", type=split_label, metavar="SPLIT=FILE", nargs="+", help="SQuAD's JSON, also .xz .gz .bz2")
    add("--rules", choices=RULES, default="squad", help="rules that score the answers (default: %(default)s)")
    add("--language", default="en", metavar="L", help="for splits that do not say theirs (default: en)")
    add("--workers", type=int, default=available_cores(), metavar="N", help="processes (default: all cores)")


def run(args: argparse.Namespace) -> None:
    from tupe.data.corpus.manifest import Manifest
    from tupe.data.glue.report import same_as_training
    from tupe.data.parallel import pool
    from tupe.data.qa.prepare import prepare
    from tupe.data.qa.report import lines

    corpus = Manifest.load(args.corpus)
    with pool(args.workers) as map_:
        reports = prepare(dict(args.files), corpus, args.out, args.rules, args.language, map_)
    for split, report in reports.items():
        print("\n".join(lines(args.out.name, split, report)))
    for line in same_as_training({split: report.sha256 for split, report in reports.items()}):
        print(line)
    print(f"data: {args.out}")
