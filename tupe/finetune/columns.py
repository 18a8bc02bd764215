"""The columns of the papers' tables."""

import statistics
from collections.abc import Mapping
from typing import NamedTuple

from tupe.data.languages import TEST_LANGUAGES
from tupe.finetune.runs import Result


class Column(NamedTuple):
    """A column of a table: a metric of a task."""

    name: str  # its heading
    task: str
    metric: str = "accuracy"  # as the criterion logs it, in percent; "": the metric that chose the best epoch
    # fairseq's name of a set, such as `valid`, or `XQuAD/test-de` of a language; `XQuAD/` is the mean of the languages
    subset: str = "valid"
    averaged: bool = True  # whether the papers' average includes it
    gap: bool = False  # whether the score is English less the mean of the other languages, XTREME's transfer gap

    def score(self, result: Result) -> float | None:
        """Return the score of a finished run, at the epoch that is best on the task's first development set."""
        if self.subset == "valid" and self.metric in ("", result.metric):
            return result.score
        if self.subset.endswith("/"):
            scores = {name: result.metrics[name].get(self.metric) for name in self.splits(result)}
            if not scores or None in scores.values():
                return None
            if not self.gap:
                return statistics.fmean(scores.values())
            english = [score for name, score in scores.items() if name.endswith("-en")]
            others = [score for name, score in scores.items() if not name.endswith("-en")]
            return english[0] - statistics.fmean(others) if english and others else None
        return result.metrics.get(self.subset, {}).get(self.metric)

    def splits(self, result: Result) -> list[str]:
        """Return the sets in the papers' languages: XQuAD without Romanian, which came later."""
        known = TEST_LANGUAGES[self.subset[:-1]]
        return sorted(
            name for name in result.metrics if name.startswith(self.subset) and name.rpartition("-")[2] in known
        )

    def differs(self, result: Result) -> str:
        """Describe how a mean differs from the papers' over all languages' test sets: `valid, 2 of 15 languages`."""
        if not self.subset.endswith("/"):
            return ""
        names, number = self.splits(result), len(TEST_LANGUAGES[self.subset[:-1]])
        valid = ["valid"] if any("/valid-" in name for name in names) else []
        return ", ".join(valid + [f"{len(names)} of {number} languages"] * (len(names) < number))


class Cell(NamedTuple):
    """A cell of the table: one system and one column. A published one has only its score."""

    score: float | None  # median over the seeds, in percent; None without a finished run
    deviation: float | None = None  # standard deviation over the seeds, where there are two or more
    lr: float | None = None  # the learning rate of the score
    finished: int = 0  # number of finished runs
    planned: int = 0  # number of planned runs, except finished ones without the column's test set
    differs: str = ""  # how a mean over languages differs from the papers'
    scores: Mapping[float, list[float]] = {}  # of the finished runs, by learning rate


class Row(NamedTuple):
    """A row of the table: one system."""

    name: str  # in the table
    cells: dict[str, Cell]  # by the name of the column
    more: tuple[Column, ...] = ()  # columns that `COLUMNS` lacks: of single languages and of users' own tasks
    source: str = ""  # where a published row comes from
    updates: int = 0  # pre-training updates of a sweep's model

    def average(self, columns: list[Column]) -> float | None:
        """Return the mean over `columns`, with MNLI-m and MNLI-mm as two; None if a column has no score."""
        scores = [self.cells[column.name].score for column in columns if column.name in self.cells]
        if not columns or len(scores) < len(columns) or None in scores:
            return None
        return statistics.fmean(scores)


#: In the order of TUPE's table 1; its average is of the nine columns without WNLI.
GLUE = (
    Column("MNLI-m", "MNLI"),
    Column("MNLI-mm", "MNLI", subset="valid1"),
    Column("QNLI", "QNLI"),
    Column("QQP", "QQP"),
    Column("SST-2", "SST-2"),
    Column("CoLA", "CoLA", "mcc"),
    Column("MRPC", "MRPC"),
    Column("RTE", "RTE"),
    Column("STS-B", "STS-B", "pearson"),
    Column("WNLI", "WNLI", averaged=False),
)
#: Means over languages, in the order of DIET's table 3; its average is of these seven.
XTREME = (
    Column("XNLI", "XNLI", subset="XNLI/"),
    *(
        Column(f"{test} {name}", task, metric, f"{test}/")
        for test, task in (("XQuAD", "SQuAD"), ("MLQA", "SQuAD"), ("TyDiQA", "TyDiQA"))
        for name, metric in (("F1", "f1"), ("EM", "exact_match"))
    ),
)
COLUMNS = (*GLUE, *XTREME)
