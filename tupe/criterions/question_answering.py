"""Extractive question answering: cross-entropy of the first and last position of the answer in a window."""

import math

import torch
import torch.nn.functional as F
from fairseq.criterions import FairseqCriterion, register_criterion
from fairseq.dataclass import FairseqDataclass
from fairseq.logging import metrics
from fairseq.tasks import FairseqTask
from torch import Tensor, nn

from tupe.criterions.metrics import totals
from tupe.data.batches import host_counts
from tupe.data.windows import best_span


@register_criterion("tupe_question_answering", dataclass=FairseqDataclass)
class TupeQuestionAnsweringCriterion(FairseqCriterion):
    """The mean of two cross-entropies, each over all positions of a window that are not padding.

    In validation it logs the best span of each window. The task turns these spans into answers and logs `exact_match`
    and `f1` in percent of all questions, on any number of workers; each can be the `--best-checkpoint-metric`.
    """

    def __init__(self, task: FairseqTask) -> None:
        super().__init__(task)
        self.longest = task.cfg.max_answer
        self.padding_idx = task.source_dictionary.pad()

    def forward(self, model: nn.Module, sample: dict, reduce: bool = True) -> tuple[Tensor, int, dict]:
        """Return the summed loss (nats), the number of windows, and the logging output.

        Args:
            model: called with `spans` and `num_tokens`; returns scores `(B, T)` of beginnings and of ends.
            sample: a batch of the task `tupe_question_answering`; `target` `(B, 2)` holds two positions of each window.
        """
        source, target = sample["net_input"]["src_tokens"], sample["target"]
        (begin, end), _ = model(**sample["net_input"], spans=True, **host_counts(sample))  # (B, T) each
        padding = source.eq(self.padding_idx)
        loss = sum(
            F.cross_entropy(side.masked_fill(padding, -math.inf), target[:, place], reduction="sum") / 2
            for place, side in enumerate((begin, end))
        )
        log = {
            "loss": loss.detach(),
            "ntokens": sample["ntokens"],
            "nsentences": len(target),
            "sample_size": len(target),
        }
        if not self.training and "may_begin" in sample:
            log["examples"] = self._best(begin, end, sample)
        return loss, len(target), log

    def _best(self, begin: Tensor, end: Tensor, sample: dict) -> Tensor:
        """Return each window's best span, if any, `(n, 5)` float64: window, split, score, first and last position."""
        sides = [side.detach().cpu().numpy() for side in (begin, end, sample["may_begin"], sample["may_end"])]
        rows = []
        for window, *one in zip(sample["id"].tolist(), *sides):
            if span := best_span(*one, self.longest):
                rows.append((window, sample["split"], *span))
        return torch.tensor(rows, dtype=torch.float64, device=begin.device).view(-1, 5)

    def logging_outputs_can_be_summed(self) -> bool:
        """Return false in validation, so that fairseq gathers the spans of all workers."""
        return self.training

    @staticmethod
    def reduce_metrics(logging_outputs: list[dict]) -> None:
        """Log the loss in bits per window."""
        loss, count = totals(logging_outputs, "loss", "sample_size")
        metrics.log_scalar("loss", loss / count / math.log(2), count, round=3)
