"""Classification and regression of sentences and sentence pairs, with the metrics of GLUE."""

# No `from __future__ import annotations`: fairseq and omegaconf read the types of the fields.
import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from fairseq.criterions import FairseqCriterion, register_criterion
from fairseq.dataclass import FairseqDataclass
from fairseq.logging import metrics
from fairseq.tasks import FairseqTask
from torch import Tensor, nn

from tupe.criterions.metrics import REGRESSION_METRICS, class_counts, class_metrics, log_examples, log_percent, totals
from tupe.data.batches import host_counts
from tupe.systems import setting


@dataclass
class TupeSentencePredictionCriterionConfig(FairseqDataclass):
    classification_head_name: str = setting("sentence_classification_head", "name of the classification head")
    regression_target: bool = setting(False, "the target is a number, not a class")


@register_criterion("tupe_sentence_prediction", dataclass=TupeSentencePredictionCriterionConfig)
class TupeSentencePredictionCriterion(FairseqCriterion):
    """Cross-entropy, or squared error, of a classification head.

    The metrics are computed over the whole data set, not averaged over batches, so they are the same on any number of
    workers. Each can be the `--best-checkpoint-metric`. They are percentages, Python floats: for
    classes `accuracy`, `macro_f1`, `mcc`, and for two classes `f1` and `acc_and_f1`, whose positive class is the one
    that is written `1` in the data, else the second; for regression `pearson`, `spearman` and `pearson_and_spearman`
    (validation only).
    """

    def __init__(self, cfg: TupeSentencePredictionCriterionConfig, task: FairseqTask) -> None:
        super().__init__(task)
        self.head = cfg.classification_head_name
        self.regression_target = cfg.regression_target

    def forward(self, model: nn.Module, sample: dict, reduce: bool = True) -> tuple[Tensor, int, dict]:
        """Return the summed loss (nats, or squared target units), the number of examples, and the logging output.

        Args:
            model: called with `classification_head_name` and `num_tokens`; returns scores `(B, num_classes)`.
            sample: a batch of the task `tupe_sentence_prediction`; `target` holds `B` classes or numbers.
        """
        net_input, target = sample["net_input"], sample["target"].flatten()
        options = {"features_only": True, "classification_head_name": self.head}
        scores, _ = model(**net_input, **options, **host_counts(sample))
        scores = scores.float()

        size = len(sample["target"])
        log = {"ntokens": sample["ntokens"], "nsentences": size, "sample_size": size}
        if self.regression_target:
            scores = scores.flatten()
            loss = F.mse_loss(scores, target.float(), reduction="sum")
            if not self.training:
                columns = (sample["id"], scores.detach(), target)
                log["examples"] = torch.stack([column.double() for column in columns], dim=1)
        else:
            loss = F.cross_entropy(scores, target, reduction="sum")
            log["counts"] = class_counts(target, scores.argmax(-1), scores.shape[-1], self.task.label_dictionary)
        log["loss"] = loss.detach()
        return loss, size, log

    def logging_outputs_can_be_summed(self) -> bool:
        """Return false where examples are logged, so that fairseq gathers the logs of all workers."""
        return self.training or not self.regression_target

    @staticmethod
    def reduce_metrics(logging_outputs: list[dict]) -> None:
        """Log the loss (bits, or the mean squared error) and the metrics; see the class."""
        loss, count = totals(logging_outputs, "loss", "sample_size")
        classes = "counts" in logging_outputs[0]
        metrics.log_scalar("loss", loss / count / (math.log(2) if classes else 1), count, round=3)
        if classes:
            counts = sum(log["counts"] for log in logging_outputs).long().cpu()
            metrics.log_scalar_sum("_class_counts", counts)
            for name, metric in class_metrics(counts.shape[1]).items():
                log_percent(name, "_class_counts", metric)
        elif log_examples(logging_outputs):
            for name, metric in REGRESSION_METRICS.items():
                metrics.log_derived(name, lambda meters, of=metric: 100 * of(*meters["_examples"].arrays()))
