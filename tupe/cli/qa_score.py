"""Scores answers by the official rules of SQuAD or MLQA: exact match and F1 in percent, as JSON.

XQuAD and TyDiQA-GoldP go by SQuAD's rules. Files may be packed by xz, gzip or bzip2.
Example: tupe qa-score --rules mlqa --language de test-context-de-question-de.json predictions/test-de.json
"""

import argparse
from pathlib import Path

from tupe.data.qa.rules import RULES


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("reference", type=Path, metavar="REFERENCE", help="questions with their answers, SQuAD's JSON")
    add("predictions", type=Path, metavar="PREDICTIONS", help="JSON, a text for each id")
    add("--rules", choices=RULES, default="squad", help="rules of this benchmark (default: %(default)s)")
    add("--language", metavar="L", help="language of the contexts: MLQA's rules need it, SQuAD's ignore it")


def run(args: argparse.Namespace) -> None:
    """Print the scores, and warnings about questions without prediction on stderr."""
    import json
    import sys

    from tupe.data.qa.rules import tokens
    from tupe.data.qa.score import score_files
    from tupe.util import UserError

    if args.rules == "mlqa" and args.language is None:
        raise UserError("MLQA's rules are those of a language: give --language, that of the contexts.")
    result, said = score_files(args.reference, args.predictions, tokens(args.rules, args.language or "en"))
    for sentence in said:
        print(f"warning: {sentence}", file=sys.stderr)
    print(json.dumps(result))
