"""What the decoder reads of the source: each sentence once, however many hypotheses are made of it."""

from typing import NamedTuple

import torch
from torch import Tensor


class Source(NamedTuple):
    """The encoder's output of `S` sentences, for `N` rows of the decoder.

    features: `(S, n_s, d)`.
    padding: `(S, n_s)`, true at padding; `None` where there is none.
    sentence: `(N,)`, which sentence each row translates; `None` where row `n` translates sentence `n`.
    beam: rows that follow each other and translate the same sentence: their queries share its keys and values.
    chosen: `(N / beam,)`, the sentences that they translate; `None` where these are all, in order.
    """

    features: Tensor
    padding: Tensor | None = None
    sentence: Tensor | None = None
    beam: int = 1
    chosen: Tensor | None = None

    def reorder(self, new_order: Tensor) -> "Source":
        """Row `n` becomes what row `new_order[n]` was; rows may be repeated and left out. Features stay."""
        sentence = new_order if self.sentence is None else self.sentence[new_order]
        number = len(self.features)
        beam = self.beam if self.beam > 1 else max(1, len(sentence) // number)
        if len(sentence) % beam or not torch.equal(sentence, sentence[::beam].repeat_interleave(beam)):
            beam = 1
        chosen = sentence[::beam]
        everything = len(chosen) == number and torch.equal(chosen, torch.arange(number, device=chosen.device))
        return self._replace(sentence=sentence, beam=beam, chosen=None if everything else chosen)

    def choose(self, of_sentences: Tensor | None) -> Tensor | None:
        """`(S, ...)` to `(N / beam, ...)`."""
        if of_sentences is None or self.chosen is None:
            return of_sentences
        return of_sentences.index_select(0, self.chosen)
