"""Classification and regression of sentences and sentence pairs, with the metrics of GLUE."""

# No `from __future__ import annotations`: fairseq and omegaconf read the types of the fields.
import math
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from fairseq.criterions import FairseqCriterion, register_criterion
from fairseq.dataclass import FairseqDataclass
from fairseq.distributed import utils as distributed
from fairseq.logging import metrics
from fairseq.tasks import FairseqTask
from torch import Tensor, nn

from tupe.criterions.metrics import ExamplesMeter, accuracy, f1, log_percent, matthews, pearson, spearman
from tupe.data.batches import known
from tupe.errors import UserError


@dataclass
class TupeSentencePredictionCriterionConfig(FairseqDataclass):
    classification_head_name: str = field(
        default="sentence_classification_head", metadata={"help": "name of the classification head"}
    )
    regression_target: bool = field(default=False, metadata={"help": "the target is a number, not a class"})


@register_criterion("tupe_sentence_prediction", dataclass=TupeSentencePredictionCriterionConfig)
class TupeSentencePredictionCriterion(FairseqCriterion):
    """Cross-entropy, or squared error, of a classification head.

    The metrics are of the whole data set, not a mean over batches, and the same on any number of workers; each can be
    the `--best-checkpoint-metric`. They are percentages, Python floats:
    for classes `accuracy`, `mcc`, and with two classes `f1` and `acc_and_f1`, whose positive class is the one that the
    data write `1`; for regression `pearson`, `spearman` and `pearson_and_spearman` (validation only).
    """

    def __init__(self, cfg: TupeSentencePredictionCriterionConfig, task: FairseqTask) -> None:
        super().__init__(task)
        if not hasattr(task, "label_dictionary"):
            raise UserError(
                f"the criterion tupe_sentence_prediction needs labels, which the task {type(task).__name__} has not: "
                "set --task tupe_sentence_prediction"
            )
        self.head = cfg.classification_head_name
        self.regression_target = cfg.regression_target
        # fairseq-preprocess numbers the classes by frequency, so that the class written 1 may be number 0
        labels = task.label_dictionary
        self.swap_two_classes = labels.index("1") == labels.nspecial

    def forward(self, model: nn.Module, sample: dict, reduce: bool = True) -> tuple[Tensor, int, dict]:
        """The summed loss (nats, or squared units of the target), the number of examples, and what is logged.

        Args:
            model: called with `classification_head_name` and `num_tokens`; returns scores `(B, num_classes)`.
            sample: a batch of the task `tupe_sentence_prediction`; `target` holds `B` classes or numbers.
            reduce: as in fairseq, unused.

        Raises:
            UserError: for a model without the head, or a batch without targets.
        """
        if self.head not in getattr(model, "classification_heads", ()):
            raise UserError(
                f"the model has no classification head {self.head}: fine-tune with --task tupe_sentence_prediction, "
                "which adds it"
            )
        if "target" not in sample:
            raise UserError("the data have no labels, so that there is no loss: add the folder label to the data")
        net_input, target = sample["net_input"], sample["target"].flatten()
        options = {"features_only": True, "classification_head_name": self.head}
        scores, _ = model(**net_input, **options, **known(sample))
        scores = scores.float()

        log = {"ntokens": sample["ntokens"], "nsentences": len(target), "sample_size": len(target)}
        if self.regression_target:
            scores = scores.flatten()
            loss = F.mse_loss(scores, target.float(), reduction="sum")
            if not self.training:
                columns = (sample["id"], scores.detach(), target)
                log["examples"] = worker_slots(torch.stack([column.double() for column in columns], dim=1))
        else:
            loss = F.cross_entropy(scores, target, reduction="sum")
            log["counts"] = self._counts(target, scores)
        log["loss"] = loss.detach()
        return loss, len(target), log

    def _counts(self, target: Tensor, scores: Tensor) -> Tensor:
        """Confusion matrix `(C, C)`, int64: true class by predicted class."""
        num_classes = scores.shape[-1]
        cells = target * num_classes + scores.argmax(-1)
        counts = target.new_zeros(num_classes**2).index_add_(0, cells, torch.ones_like(cells))
        counts = counts.view(num_classes, num_classes)
        return counts.flip(0, 1) if num_classes == 2 and self.swap_two_classes else counts

    @staticmethod
    def reduce_metrics(logging_outputs: list[dict]) -> None:
        """Logs the loss (bits, or the mean squared error) and the metrics; see the class."""
        loss, count = (float(sum(log[key] for log in logging_outputs)) for key in ("loss", "sample_size"))
        classes = "counts" in logging_outputs[0]
        metrics.log_scalar("loss", loss / count / (math.log(2) if classes else 1), count, round=3)
        if classes:
            counts = sum(log["counts"] for log in logging_outputs).long().cpu()
            metrics.log_scalar_sum("_counts", counts)
            log_percent("accuracy", "_counts", accuracy)
            log_percent("mcc", "_counts", matthews)
            if len(counts) == 2:
                log_percent("f1", "_counts", f1)
                log_percent("acc_and_f1", "_counts", lambda counts: (accuracy(counts) + f1(counts)) / 2)
        elif "examples" in logging_outputs[0]:
            rows = torch.cat([log["examples"].flatten(0, 1) for log in logging_outputs]).cpu()
            metrics.log_custom(ExamplesMeter, "_examples", rows[rows[:, 0] == 1, 1:])
            _log_examples("pearson", pearson)
            _log_examples("spearman", spearman)
            _log_examples("pearson_and_spearman", lambda x, y: (pearson(x, y) + spearman(x, y)) / 2)

    @staticmethod
    def logging_outputs_can_be_summed() -> bool:
        return True


def worker_slots(rows: Tensor) -> Tensor:
    """Makes the sum over the workers a gathering: `(n, k)` to `(workers, N, 1 + k)`, zero but in this worker's slot.

    `N` is the longest `n` of all workers; the first column is 1 where there is a row. fairseq sums what the workers
    log, and takes zeros for a worker whose batch only fills up the round: then its rows are gone, as they should.
    """
    workers = distributed.get_data_parallel_world_size()
    marked = F.pad(rows, (1, 0), value=1)
    if workers == 1:
        return marked[None]
    longest = torch.tensor(len(rows), device=rows.device)
    distributed.all_reduce(longest, group=distributed.get_data_parallel_group(), op="max")
    slots = marked.new_zeros(workers, int(longest), marked.shape[1])
    slots[distributed.get_data_parallel_rank(), : len(rows)] = marked
    return slots


def _log_examples(name: str, metric: Callable) -> None:
    metrics.log_derived(name, lambda meters: 100 * metric(*meters["_examples"].arrays()))
