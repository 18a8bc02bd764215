"""`report.json`: what became of the questions of a file, and its files, as a dataclass and as lines to print."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

from tupe.data.xtreme import TEST_LANGUAGES
from tupe.files import check_contents, read

MADE_BY, REPORT, EXAMPLES = "tupe prepare-qa", "report.json", "examples.npy"
LONG = 30  # pieces of an answer that prediction takes at most, if nothing else is said


@dataclass(frozen=True)
class Report:
    """A prepared split.

    Attributes:
        file: the name of the file that it was made of.
        sha256: that file's.
        rules: by which its answers are scored.
        language: of its contexts.
        read: questions in the file.
        kept: those that are examples: of training data only those with a target, else all.
        contexts: paragraphs.
        pieces: of all contexts.
        unknown: how many of them the vocabulary does not know.
        reasons: why how many questions have no target.
        first: the first of these, and what is wrong with it.
        targets: questions with a target.
        long: answers of more than `LONG` pieces.
        exact_match: percent of the targets, of the text that leads back from the answer's pieces.
        f1: the same.
        sizes: bytes of each file that was written.
        checksums: SHA-256 of each.
    """

    version: ClassVar[int] = 2
    file: str
    sha256: str
    rules: Literal["squad", "mlqa"]
    language: str
    read: int
    kept: int
    contexts: int
    pieces: int
    unknown: int
    reasons: dict[str, int]
    first: str
    targets: int
    long: int
    exact_match: float
    f1: float
    sizes: dict[str, int]
    checksums: dict[str, str]

    @classmethod
    def load(cls, folder: Path, everything: bool = False) -> Report:
        """Reads the report of a split, and checks its files.

        Args:
            folder: of the split.
            everything: check all checksums, not that of the examples alone.

        Raises:
            UserError: if there is none, or if a file is missing, cut or not the one that was written.
        """
        report = read(folder / REPORT, cls, MADE_BY)
        checksums = report.checksums if everything else {EXAMPLES: report.checksums.get(EXAMPLES, "")}
        check_contents(folder, report.sizes, checksums, MADE_BY, f"remove {folder} and prepare it again")
        return report


def lines(folder: str, split: str, report: Report) -> Iterator[str]:
    """What was read and kept, what was not found, and how far the found answers lead back to their texts.

    Args:
        folder: its name, which may be that of a test set of XTREME.
        split: its name.
        report: of the split.
    """
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
