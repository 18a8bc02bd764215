"""A class for every word: cross-entropy at the words' first tokens, and how many are right."""

# No `from __future__ import annotations`: fairseq and omegaconf read the types of the fields.
import math
from dataclasses import dataclass
from typing import Optional

import torch
import torch.nn.functional as F
from fairseq.criterions import register_criterion
from fairseq.dataclass import FairseqDataclass
from fairseq.logging import metrics
from fairseq.tasks import FairseqTask
from torch import Tensor, nn

from tupe.criterions.metrics import SummedCriterion, has_entities, totals
from tupe.criterions.sentence_prediction import CLASS_WEIGHTS, class_weights, worker_slots
from tupe.data.batches import known
from tupe.data.words import NO_LABEL, check_entity_scores
from tupe.systems import setting


@dataclass
class TupeTokenClassificationCriterionConfig(FairseqDataclass):
    class_weights: Optional[str] = setting(None, CLASS_WEIGHTS)


@register_criterion("tupe_token_classification", dataclass=TupeTokenClassificationCriterionConfig)
class TupeTokenClassificationCriterion(SummedCriterion):
    """The mean of the words' cross-entropies.

    It logs `accuracy`, percent of the words, and in validation what is predicted of each word. From that the task logs
    `f1`, `precision` and `recall` of entities. Each can be the `--best-checkpoint-metric`.
    """

    def __init__(self, cfg: TupeTokenClassificationCriterionConfig, task: FairseqTask) -> None:
        super().__init__(task)
        self.require(hasattr(task, "classes"), "labels of words", "tupe_token_classification")
        self.entities = has_entities(task.classes)
        if self.entities:
            check_entity_scores()
        weights = class_weights(cfg.class_weights, task) if cfg.class_weights else None
        self.register_buffer("weights", weights, persistent=False)

    def forward(self, model: nn.Module, sample: dict, reduce: bool = True) -> tuple[Tensor, int, dict]:
        """Return the summed loss (nats), the number of words, and what is logged.

        Args:
            model: called with `words` and `num_tokens`; returns scores `(B, T, C)`.
            sample: a batch of the task `tupe_token_classification`.
        """
        scores, _ = model(**sample["net_input"], words=True, **known(sample))
        weights = None if self.weights is None else self.weights.to(scores)  # fairseq halves them with the criterion
        target = sample["target"]
        options = {"weight": weights, "ignore_index": NO_LABEL, "reduction": "sum"}
        loss = F.cross_entropy(scores.flatten(0, 1), target.flatten(), **options)
        best = scores.detach().argmax(-1)
        log = {
            "loss": loss.detach(),
            "ntokens": sample["ntokens"],
            "nsentences": len(target),
            "sample_size": sample["words"],
            "right": (best == target).sum(),
        }
        if not self.training and self.entities:
            word = sample["word"]
            place, chosen = sample["place"][word], best[word]
            columns = (place, torch.full_like(place, sample["split"]), chosen)
            log["examples"] = worker_slots(torch.stack(columns, dim=1).double())
        return loss, sample["words"], log

    @staticmethod
    def reduce_metrics(logging_outputs: list[dict]) -> None:
        """Log the loss, in bits a word, and the accuracy."""
        loss, count, right = totals(logging_outputs, "loss", "sample_size", "right")
        count = max(count, 1.0)
        metrics.log_scalar("loss", loss / count / math.log(2), count, round=3)
        metrics.log_scalar("accuracy", 100 * right / count, count)
