"""The columns of the papers' GLUE table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional

from tupe.finetuning.runs import Result


@dataclass(frozen=True)
class Column:
    """A column.

    Attributes:
        name: its heading.
        task: the task.
        subset: fairseq's name of the development set.
        metric: as the criterion logs it, in percent.
        averaged: whether the papers' average has it.
    """

    name: str
    task: str
    metric: str = "accuracy"
    subset: str = "valid"
    averaged: bool = True

    def score(self, result: Result) -> Optional[float]:
        """The score of a finished run, at the epoch that is best on the task's first development set."""
        if self.subset == "valid":
            return result.score
        return result.metrics.get(self.subset, {}).get(self.metric)


#: In the order of TUPE's table 2; its average is of the nine columns without WNLI.
COLUMNS = (
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
