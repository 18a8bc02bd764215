"""Masked language modeling: cross-entropy and accuracy at the masked positions."""

import math

from fairseq import modules, utils
from fairseq.criterions import register_criterion
from fairseq.criterions.masked_lm import MaskedLmConfig, MaskedLmLoss
from fairseq.logging import metrics
from torch import Tensor, nn

from tupe.criterions.metrics import totals
from tupe.data.batches import host_counts


@register_criterion("tupe_masked_lm", dataclass=MaskedLmConfig)
class TupeMaskedLmCriterion(MaskedLmLoss):
    """fairseq's `masked_lm`, with the accuracy, and without waiting for the device.

    The batch contains the positions of the targets, so the sample size is available on the host. The model receives the
    positions too, so neither features nor targets are selected by a mask.
    """

    def forward(self, model: nn.Module, sample: dict, reduce: bool = True) -> tuple[Tensor, int, dict]:
        """Return the summed loss (nats, float32), the number of masked tokens, and the logging output.

        Args:
            model: called with `masked_tokens`, indices `(N,)` into the `B * T` tokens, and `num_tokens`;
                returns logits `(N, V)`.
            sample: a batch of `MaskedBatches`; `target` `(B, T)` is padding where nothing is predicted.
        """
        net_input, positions = sample["net_input"], sample["masked_tokens"]  # (N,)
        target = sample["target"].flatten()[positions]  # (N,)

        logits = model(**net_input, masked_tokens=positions, **host_counts(sample))[0]  # (N, V)
        loss = modules.cross_entropy(logits, target, ignore_index=self.padding_idx, reduction="sum")
        log = {
            "loss": loss.detach(),
            "ncorrect": (logits.argmax(-1) == target).sum(),
            "ntokens": sample["ntokens"],
            "nsentences": sample["nsentences"],
            "sample_size": len(positions),
        }
        return loss, len(positions), log

    @staticmethod
    def reduce_metrics(logging_outputs: list[dict]) -> None:
        """Log the loss in bits per masked token, and the accuracy in percent of the masked tokens."""
        loss, ncorrect, count = totals(logging_outputs, "loss", "ncorrect", "sample_size")
        metrics.log_scalar("loss", loss / max(count, 1) / math.log(2), count, round=3)
        metrics.log_derived("ppl", lambda meters: utils.get_perplexity(meters["loss"].avg))
        metrics.log_scalar("accuracy", 100 * ncorrect / max(count, 1), count, round=2)
