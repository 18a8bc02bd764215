"""Pre-trains and fine-tunes the systems on one budget: does the missing runs of a study, as scripts/study.sh.

Every run leaves a small file below --records, so that parts may be done on several machines; `tupe study-report` makes
tables of them. After a stop, the same command goes on.
Example: tupe study wiki.txt.xz --glue glue_data --jobs 2
"""

import argparse
import math
from collections import Counter
from pathlib import Path
from typing import NoReturn, get_args

from tupe.cli.main import parser_of
from tupe.errors import UserError, one_line
from tupe.experiments.study.design import Design, Part, read_design


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("texts", nargs="*", default=[], type=Path, metavar="TEXT", help="texts of the corpus; none if it is prepared")
    add_size(parser)
    add("--out", type=Path, default=Path("runs/study"), help="corpus, checkpoints, logs (default: %(default)s)")
    add("--glue", type=Path, metavar="FOLDER", help="GLUE download; without it, nothing is fine-tuned")
    add("--jobs", type=int, metavar="N", help="runs at a time (default: the design's, or one a core)")
    help_ = "save and end after this time (default: when all is done)"
    add("--minutes", type=float, default=math.inf, metavar="M", help=help_)
    add("--parts", nargs="+", choices=get_args(Part), default=[], help="default: all")
    add("--systems", nargs="+", default=[], metavar="SYSTEM", help="default: all of the study")
    help_ = "train again what left its checkpoint elsewhere and a missing run begins with; its record stays"
    add("--again", action="store_true", help=help_)
    add("--list", action="store_true", help="list what is done and what is missing, and do nothing")


def add_size(parser: argparse.ArgumentParser) -> None:
    """Add the design and the folder of the records."""
    add = parser.add_argument
    add("--size", default="cpu", help="a file of configs/study, or one of your own, my.yaml (default: %(default)s)")
    add("--records", type=Path, default=Path("docs/results/runs"), help="what runs leave (default: %(default)s)")


def _check_corpus(design: Design) -> None:
    """Raise `UserError` for options that `tupe prepare-corpus` does not take."""
    parser = parser_of("prepare-corpus")

    def refuse(message: str) -> NoReturn:
        raise UserError(f"corpus of {design.name} is wrong: {one_line(message):.300}: see {parser.prog} --help.")

    parser.error = refuse
    for word in parser.parse_intermixed_args(["OUT", "INPUT", *design.corpus]).inputs[1:]:
        refuse(f"{str(word)!r} is no option: give each word by itself, as [--vocab-size, '1000']")


def run(args: argparse.Namespace) -> None:
    from tupe.cores import available_cores
    from tupe.experiments.study.driver import ELSEWHERE, Study
    from tupe.experiments.study.finetuning import check_cost
    from tupe.experiments.study.training import check

    design = read_design(args.size)
    check(design)
    check_cost(design)
    _check_corpus(design)
    study = Study(design, args.records, args.out, args.parts, args.systems, args.again)
    for text in args.texts:
        if not text.exists():
            raise UserError(f"there is no {text}: a TEXT is a text file of the corpus, or a folder of such.")
    if args.list:
        missing = study.missing()
        for one in study.wanted:
            note = missing.get(one) or ("checkpoint elsewhere" if study.is_elsewhere(one) else "")
            note = "trained again" if one in study.again else note
            print("missing" if one in missing else "done   ", f"{one}{note and f' ({note})'}")
        return
    jobs = args.jobs or design.jobs or available_cores()
    study.prepare(args.texts, args.glue)
    number = study.do(jobs, args.minutes)
    print(f"study: {len(study.wanted) - number} of {len(study.wanted)} runs have a record in {study.records}")
    missing = study.missing()
    for why, count in Counter(why for why in missing.values() if why != ELSEWHERE).items():
        print(f"study: {count} missing{why and f' ({why})'}")
    elsewhere = [run for run, why in missing.items() if why == ELSEWHERE]
    if elsewhere:
        raise UserError(
            f"checkpoints for {len(elsewhere)} missing runs, as {elsewhere[0]}, are not in {study.out}: copy them "
            "from where they were trained, or give --again to train them here."
        )
