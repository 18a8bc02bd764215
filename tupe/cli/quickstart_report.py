"""Writes the report of scripts/quickstart.sh, and the page: table, curves, position correlation and filled masks.

Example: tupe quickstart-report runs/quickstart tupe_tiny bert_a_tiny
"""

import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", metavar="FOLDER", help="what the quickstart wrote")
    parser.add_argument("models", nargs="+", metavar="MODEL", help="pre-trained and fine-tuned there")


def run(args: argparse.Namespace) -> None:
    from tupe.analysis.report import write_report

    report = write_report(args.folder, args.models)
    print(report.read_text(encoding="utf-8"))
    print(f"report: {report}, and as a page: {report.with_suffix('.html')}")
