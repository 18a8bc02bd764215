"""fairseq's beam search with the length penalty of GNMT, which tensor2tensor and DIET use."""

from fairseq.sequence_generator import SequenceGenerator
from torch import Tensor


class GNMTSequenceGenerator(SequenceGenerator):
    """Divide scores of finished hypotheses by `((5 + n) / 6)^alpha`; fairseq divides by `n^alpha` (Wu et al. 2016, 14).

    `n` counts `</s>`, `alpha` is `len_penalty`.
    """

    def finalize_hypos(
        self,
        step: int,
        bbsz_idx: Tensor,
        eos_scores: Tensor,
        tokens: Tensor,
        scores: Tensor,
        finalized: list[list[dict[str, Tensor]]],
        *others: object,
    ) -> list[int]:
        """Rescale the hypotheses that fairseq has just ended: those of `step + 1` tokens."""
        sentences = super().finalize_hypos(step, bbsz_idx, eos_scores, tokens, scores, finalized, *others)
        length = step + 1
        for hypothesis in (hypothesis for found in finalized for hypothesis in found):
            if len(hypothesis["tokens"]) == length:
                hypothesis["score"] *= (6 * length / (5 + length)) ** self.len_penalty
        return sentences
