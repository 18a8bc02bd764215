"""fairseq's beam search with the length penalty of GNMT, which tensor2tensor, and so DIET, searched with."""

from __future__ import annotations

from fairseq.sequence_generator import SequenceGenerator
from torch import Tensor


class GNMTSequenceGenerator(SequenceGenerator):
    """Scores of finished hypotheses are divided by `((5 + n) / 6)^alpha`, fairseq's by `n^alpha` (Wu et al. 2016, 14).

    `n` counts `</s>`, `alpha` is `len_penalty`.
    """

    def finalize_hypos(self, step: int, bbsz_idx: Tensor, eos_scores: Tensor, *args: object, **kwargs: object) -> list:
        """fairseq divides by `n^alpha`, so the scores come `(6 n / (5 + n))^alpha` times as large."""
        length = step + 1
        eos_scores = eos_scores * (6 * length / (5 + length)) ** self.len_penalty
        return super().finalize_hypos(step, bbsz_idx, eos_scores, *args, **kwargs)
