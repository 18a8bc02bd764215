"""`report.json` of a prepared split, as a dataclass and as lines to print: its questions and its files."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tupe.data.xtreme import TEST_LANGUAGES
from tupe.util import read_json

REPORT, EXAMPLES, QUESTIONS = "report.json", "examples.npy", "questions.json"
LONG = 30  # pieces of an answer that prediction takes at most, if nothing else is said


@dataclass(frozen=True)
class Report:
    """A prepared split."""

    file: str  # the name of the file that it was made of
    sha256: str  # checksum of the file
    rules: Literal["squad", "mlqa"]  # rules that score its answers
    language: str  # language of its contexts
    read: int  # questions in the file
    kept: int  # questions that are examples: all, but in training data only those with a target
    contexts: int  # paragraphs
    pieces: int  # pieces of all contexts
    unknown: int  # pieces that the vocabulary does not know
    reasons: dict[str, int]  # how many questions have no target, by the reason
    first: str  # the first of these questions, and its reason
    targets: int  # questions with a target
    long: int  # answers of more than `LONG` pieces
    exact_match: float  # percent of the targets: score of the text that is found again by the answer's pieces
    f1: float  # percent, likewise

    @classmethod
    def load(cls, folder: Path) -> "Report":
        """Read the report of a split."""
        return cls(**read_json(folder / REPORT))


def lines(folder: str, split: str, report: Report) -> Iterator[str]:
    """Yield what was read, kept and not found in a split, and how far the found answers lead back to their texts."""
    share = 100 * report.unknown / max(report.pieces, 1)
    contexts = f"{report.contexts:,} contexts of {report.pieces:,} pieces, {share:.2f}% unknown"
    yield f"{split:<8} {report.read:,} questions read, {report.kept:,} kept; {contexts}"
    for reason, number in report.reasons.items():
        yield f"{'':<8} {number:,} {'dropped' if report.kept < report.read else 'without a target'}: {reason}"
    if report.first:
        yield f"{'':<8} first: {report.first}"
    if report.targets:
        recovered = f"exact match {report.exact_match:.2f}, F1 {report.f1:.2f}"
        yield f"{'':<8} answers recovered from pieces: {recovered}; {report.long:,} longer than {LONG} pieces"
    known = TEST_LANGUAGES.get(folder) or set().union(*TEST_LANGUAGES.values())
    if split.startswith("test-") and report.language not in known:
        whose = folder if folder in TEST_LANGUAGES else "XTREME's test sets"
        there = ", ".join(sorted(known))
        yield f"warning: '{report.language}' is no language of {whose} ({there}): no mean of tupe table has it"
