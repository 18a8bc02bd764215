"""Replaced-token detection (ELECTRA, Clark et al. 2020): the losses of a generator and a discriminator."""

# No `from __future__ import annotations`: fairseq and omegaconf read the types of the fields.
import math
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from fairseq import modules, utils
from fairseq.criterions import FairseqCriterion, register_criterion
from fairseq.dataclass import FairseqDataclass
from fairseq.logging import metrics
from fairseq.tasks import FairseqTask
from torch import Tensor, nn

from tupe.criterions.metrics import area_under_curve, detection, log_percent, totals
from tupe.data.batches import host_counts
from tupe.systems import setting

#: Bins of the scores for the area under the curve. The decision boundary is in the middle.
BINS = 200


@dataclass
class TupeElectraCriterionConfig(FairseqDataclass):
    discriminator_weight: float = setting(50.0, "lambda, weight of the discriminator's loss")
    generator_weight: float = setting(1.0, "weight of the generator's loss")
    sampling_temperature: float = setting(1.0, "temperature of the softmax that tokens are sampled from")


@register_criterion("tupe_electra", dataclass=TupeElectraCriterionConfig)
class TupeElectraCriterion(FairseqCriterion):
    r"""The generator models masked tokens, and the discriminator predicts for every token whether it was replaced.

        L = (weight / rho * sum_M CE(logits, original) + lambda * sum_N BCE(sigmoid(scores), replaced)) / N

    `M` are the masked positions, `rho` the fraction of positions that the task masks, `N` all tokens without padding.
    The sums add up over batches and workers, and so does `N`, so that the gradient of an update does not depend on how
    it is split into batches. (The mean of `CE` over `M` is this term divided by `M / (rho N)`, which is logged.)

    `<s>` and `</s>`, which the task masks too, are restored first. A sampled token that equals the original counts as
    original. The random numbers depend only on the seed, the example and, in training, the update. So a resumed run
    samples the same tokens, and validations are repeatable.
    """

    def __init__(self, cfg: TupeElectraCriterionConfig, task: FairseqTask) -> None:
        super().__init__(task)
        self.mask_rate, self.seed, self.temperature = task.cfg.mask_prob, task.cfg.seed, cfg.sampling_temperature
        self.generator_weight = cfg.generator_weight / self.mask_rate
        self.discriminator_weight = cfg.discriminator_weight
        dictionary = task.source_dictionary
        self.padding, self.bos, self.eos = dictionary.pad(), dictionary.bos(), dictionary.eos()

    def forward(self, model: nn.Module, sample: dict, reduce: bool = True) -> tuple[Tensor, int, dict]:
        """Return the summed loss (nats, float32), `N`, and the logging output.

        Args:
            model: an `ElectraModel`.
            sample: a batch of `MaskedBatches`; `target` `(B, T)` is padding where nothing was masked.
        """
        masked, target = sample["net_input"]["src_tokens"], sample["target"]  # (B, T)
        chosen = target.ne(self.padding)
        original = torch.where(chosen, target, masked)
        special = original.eq(self.bos) | original.eq(self.eos)
        masked = torch.where(special, original, masked)
        positions = sample["masked_words"]  # (M,)
        uniform = self.uniform(model, sample["ids"], masked.shape[1]).to(masked.device, non_blocking=True)
        output = model(
            masked,
            original=original,
            masked_tokens=positions,
            uniform=uniform.flatten()[positions],
            temperature=self.temperature,
            **host_counts(sample),
        )

        wanted = original.flatten()[positions]
        gen_loss = modules.cross_entropy(output.logits, wanted, ignore_index=self.padding, reduction="sum")
        counted, replaced = original.ne(self.padding), output.tokens.ne(original)
        scores = output.scores.float()
        each = F.binary_cross_entropy_with_logits(scores, replaced.to(scores.dtype), reduction="none")
        disc_loss = (each * counted).sum()
        loss = self.generator_weight * gen_loss + self.discriminator_weight * disc_loss
        drawn = output.tokens.flatten()[positions]
        log = {
            "loss": loss.detach(),
            "gen_loss": gen_loss.detach(),
            "gen_correct": (output.logits.argmax(-1) == wanted).sum(),
            "drawn_correct": (drawn == wanted).sum(),
            "masked": len(positions),
            "expected": self.mask_rate * sample["ntokens"],
            "disc_loss": disc_loss.detach(),
            "scores": histogram(scores.detach(), torch.where(special, 2, replaced), counted),
            "ntokens": sample["ntokens"],
            "nsentences": sample["nsentences"],
            "sample_size": sample["ntokens"],
        }
        return loss, sample["ntokens"], log

    def uniform(self, model: nn.Module, ids: list[int], length: int) -> Tensor:
        """Draw numbers in [0, 1) for each token of the examples `ids`, `(B, length)`, on the CPU."""
        update = model.num_updates + 1 if self.training else 0
        rows = (np.random.default_rng((self.seed, update, number)).random(length, np.float32) for number in ids)
        return torch.from_numpy(np.stack(list(rows)))

    @staticmethod
    def logging_outputs_can_be_summed() -> bool:
        return True

    @staticmethod
    def reduce_metrics(logging_outputs: list[dict]) -> None:
        """Log both losses and the accuracy of both networks.

        `loss` is the objective. `loss` and `disc_loss` are in bits per token, `gen_loss` in bits per masked token. In
        percent: `gen_accuracy`, the most likely token is right; `sampled_accuracy`, the sampled token is right;
        `replaced_share` of all tokens; `masked_share` of the number expected from `mask_prob`; `disc_accuracy`;
        `disc_recall` of replaced tokens, `disc_specificity` of original ones, `disc_precision` of those classified as
        replaced; `disc_auc`, how often a replaced token scores higher than an original one (not `<s>`, `</s>`).
        """
        tokens, masked, expected = totals(logging_outputs, "sample_size", "masked", "expected")
        loss, gen_loss, disc_loss = totals(logging_outputs, "loss", "gen_loss", "disc_loss")
        correct, drawn = totals(logging_outputs, "gen_correct", "drawn_correct")
        metrics.log_scalar("loss", loss / max(tokens, 1) / math.log(2), tokens, round=3)
        metrics.log_scalar("gen_loss", gen_loss / max(masked, 1) / math.log(2), masked, round=3)
        metrics.log_derived("gen_ppl", lambda meters: utils.get_perplexity(meters["gen_loss"].avg))
        metrics.log_scalar("gen_accuracy", 100 * correct / max(masked, 1), masked, round=2)
        metrics.log_scalar("sampled_accuracy", 100 * drawn / max(masked, 1), masked, round=2)
        metrics.log_scalar("masked_share", 100 * masked / max(expected, 1), expected, round=1)
        metrics.log_scalar("disc_loss", disc_loss / max(tokens, 1) / math.log(2), tokens, round=4)
        metrics.log_scalar_sum("_scores", sum(log["scores"] for log in logging_outputs).long().cpu())
        for name in ("replaced_share", "disc_accuracy", "disc_recall", "disc_specificity", "disc_precision"):
            log_percent(name, "_scores", lambda scores, name=name: detection(scores)[name])
        log_percent("disc_auc", "_scores", area_under_curve)


def histogram(scores: Tensor, kind: Tensor, counted: Tensor) -> Tensor:
    """Return counts `(3, BINS)` of the original, the replaced and the special tokens by `sigmoid(scores)`.

    The upper half of the bins has the scores above 0. All arguments are `(B, T)`: `kind` is 0, 1 or 2, the row of each
    token, and `counted` marks the tokens that count.
    """
    half = BINS // 2
    bins = (BINS * scores.sigmoid()).long()
    bins = torch.where(scores > 0, bins.clamp(half, BINS - 1), bins.clamp(0, half - 1))
    counts = counted.new_zeros(3 * BINS, dtype=torch.int64)
    return counts.index_add_(0, (kind * BINS + bins).flatten(), counted.flatten().long()).view(3, BINS)
