"""Classification and regression of sentences and sentence pairs, with the metrics of GLUE."""

# No `from __future__ import annotations`: fairseq and omegaconf read the types of the fields.
import math
from dataclasses import dataclass
from typing import Optional

import torch
import torch.nn.functional as F
from fairseq.criterions import register_criterion
from fairseq.dataclass import FairseqDataclass
from fairseq.distributed import utils as distributed
from fairseq.logging import metrics
from fairseq.tasks import FairseqTask
from torch import Tensor, nn

from tupe.criterions.metrics import (
    OF_CLASSES,
    OF_NUMBERS,
    OF_SETS,
    OF_TWO_CLASSES,
    ExamplesMeter,
    SummedCriterion,
    log_percent,
    pearson,
    set_counts,
    spearman,
    totals,
)
from tupe.data.batches import known
from tupe.errors import UserError
from tupe.systems import setting

CLASS_WEIGHTS = "weights of the classes in the loss, as 1,2.5,1; balanced: by the inverse of how often each occurs"


@dataclass
class TupeSentencePredictionCriterionConfig(FairseqDataclass):
    classification_head_name: str = setting("sentence_classification_head", "name of the classification head")
    regression_target: bool = setting(False, "the target is a number, not a class")
    class_weights: Optional[str] = setting(None, CLASS_WEIGHTS)


@register_criterion("tupe_sentence_prediction", dataclass=TupeSentencePredictionCriterionConfig)
class TupeSentencePredictionCriterion(SummedCriterion):
    """Cross-entropy, or squared error, of a classification head; the mean over the classes where there are several.

    The metrics are of the whole data set, not a mean over batches, and the same on any number of workers; each can be
    the `--best-checkpoint-metric`. They are percentages, Python floats:
    for classes `accuracy`, `macro_f1`, `mcc`, and with two classes `f1` and `acc_and_f1`, whose positive class is the
    one that the data write `1`, else the second; for several classes of an example `micro_f1`, `macro_f1` and
    `accuracy`, the share of examples without a mistake; for regression `pearson`, `spearman` and
    `pearson_and_spearman` (validation only).
    """

    def __init__(self, cfg: TupeSentencePredictionCriterionConfig, task: FairseqTask) -> None:
        super().__init__(task)
        self.require(hasattr(task, "label_dictionary"), "labels", "tupe_sentence_prediction")
        self.head = cfg.classification_head_name
        self.regression_target = cfg.regression_target
        # fairseq-preprocess numbers the classes by frequency, so that the class written 1 may be number 0
        labels = task.label_dictionary
        self.swap_two_classes = labels.index("1") == labels.nspecial
        self.multi_label = bool(getattr(getattr(task, "cfg", None), "multi_label", False))
        if self.regression_target and (self.multi_label or cfg.class_weights):
            raise UserError("a regression has no classes: leave out multi_label and class_weights")
        weights = class_weights(cfg.class_weights, task, self.multi_label) if cfg.class_weights else None
        self.register_buffer("weights", weights, persistent=False)

    def forward(self, model: nn.Module, sample: dict, reduce: bool = True) -> tuple[Tensor, int, dict]:
        """Return the summed loss (nats, or squared units of the target), the number of examples, and what is logged.

        Args:
            model: called with `classification_head_name` and `num_tokens`; returns scores `(B, num_classes)`.
            sample: a batch of the task `tupe_sentence_prediction`; `target` holds `B` classes or numbers.
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
        weights = None if self.weights is None else self.weights.to(scores)  # fairseq halves them with the criterion

        size = len(sample["target"])
        log = {"ntokens": sample["ntokens"], "nsentences": size, "sample_size": size}
        if self.regression_target:
            scores = scores.flatten()
            loss = F.mse_loss(scores, target.float(), reduction="sum")
            if not self.training:
                columns = (sample["id"], scores.detach(), target)
                log["examples"] = worker_slots(torch.stack([column.double() for column in columns], dim=1))
        elif self.multi_label:
            target = sample["target"].to(scores)  # B C
            loss = F.binary_cross_entropy_with_logits(scores, target, pos_weight=weights, reduction="sum")
            loss = loss / target.shape[1]
            hit, chosen = target.bool(), scores.detach() > 0
            log["sides"] = set_counts(hit, chosen)
            log["exact"] = (hit == chosen).all(1).sum()
        else:
            loss = F.cross_entropy(scores, target, weights, reduction="sum")
            log["counts"] = self._counts(target, scores)
        log["loss"] = loss.detach()
        return loss, size, log

    def _counts(self, target: Tensor, scores: Tensor) -> Tensor:
        """Return the confusion matrix `(C, C)`, int64: true class by predicted class."""
        num_classes = scores.shape[-1]
        cells = target * num_classes + scores.argmax(-1)
        counts = target.new_zeros(num_classes**2).index_add_(0, cells, torch.ones_like(cells))
        counts = counts.view(num_classes, num_classes)
        return counts.flip(0, 1) if num_classes == 2 and self.swap_two_classes else counts

    @staticmethod
    def reduce_metrics(logging_outputs: list[dict]) -> None:
        """Log the loss (bits, or the mean squared error) and the metrics; see the class."""
        loss, count = totals(logging_outputs, "loss", "sample_size")
        classes, several = (name in logging_outputs[0] for name in ("counts", "sides"))
        metrics.log_scalar("loss", loss / count / (math.log(2) if classes or several else 1), count, round=3)
        if several:
            metrics.log_scalar_sum("_sides", sum(log["sides"] for log in logging_outputs).long().cpu())
            metrics.log_scalar("accuracy", 100 * totals(logging_outputs, "exact")[0] / count, count)
            for name, metric in OF_SETS.items():
                log_percent(name, "_sides", metric)
        elif classes:
            counts = sum(log["counts"] for log in logging_outputs).long().cpu()
            metrics.log_scalar_sum("_counts", counts)
            for name, metric in {**OF_CLASSES, **(OF_TWO_CLASSES if len(counts) == 2 else {})}.items():
                log_percent(name, "_counts", metric)
        elif (rows := logged_rows(logging_outputs)) is not None:
            metrics.log_custom(ExamplesMeter, "_examples", rows)
            both = {"pearson_and_spearman": lambda x, y: (pearson(x, y) + spearman(x, y)) / 2}
            for name, metric in {**OF_NUMBERS, **both}.items():
                metrics.log_derived(name, lambda meters, of=metric: 100 * of(*meters["_examples"].arrays()))


def class_weights(text: str, task: FairseqTask, multi_label: bool = False) -> Tensor:
    """Return the weights `(C,)` of the classes of a task; `balanced` ones have the mean 1 over its training examples.

    With `multi_label` they weigh the examples that have a class against those without it; 1 if all have it.

    Raises:
        UserError: unless there is a number above 0 for each class, and for balanced weights of a class that no
            training example has.
    """
    number = task.cfg.num_classes
    if text == "balanced":
        counts, total = task.class_counts()
        if min(counts) == 0:
            missing = task.label_dictionary[task.label_dictionary.nspecial + counts.index(0)]
            raise UserError(f"no training example has the class {missing!r}, so that it has no balanced weight")
        weights = [((total - n) / n or 1) if multi_label else total / (number * n) for n in counts]
    else:
        try:
            weights = [float(part) for part in text.split(",")]
        except ValueError:
            weights = []
        if len(weights) != number or not all(0 < weight < math.inf for weight in weights):
            raise UserError(
                f"class_weights is {text!r:.60}: give balanced, or {number} numbers above 0 in the order of the "
                "classes, such as 1,2.5"
            )
    return torch.tensor(weights)


def worker_slots(rows: Tensor) -> Tensor:
    """Put the rows `(n, k)` into this worker's slot of `(workers, N, 1 + k)`, zero elsewhere.

    fairseq sums what the workers log, so the sum holds all rows. `N` is the longest `n` of all workers; the first
    column is 1 where there is a row. A worker whose batch only fills up the round logs zeros: its rows do not count.
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


def logged_rows(logging_outputs: list[dict]) -> Optional[Tensor]:
    """Return what the workers logged as `examples` by `worker_slots`, `(N, k)`; None in training."""
    if "examples" not in logging_outputs[0]:
        return None
    rows = torch.cat([log["examples"].flatten(0, 1) for log in logging_outputs]).cpu()
    return rows[rows[:, 0] == 1, 1:]
