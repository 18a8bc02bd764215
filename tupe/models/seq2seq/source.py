"""The source as the decoder reads it: each sentence once, however many hypotheses it has."""

from typing import NamedTuple

import torch
from torch import Tensor


class Source(NamedTuple):
    """The encoder's output for `S` sentences, read by `N` rows of the decoder.

    features: `(S, n_s, d)`.
    padding: `(S, n_s)`, true at padding; `None` where there is none.
    sentence: `(N,)`, which sentence each row translates; `None` where row `n` translates sentence `n`.
    beam: number of consecutive rows that translate the same sentence: their queries share its keys and values.
    chosen: `(N / beam,)`, the sentences of these runs of rows; `None` where these are all sentences, in order.
    """

    features: Tensor
    padding: Tensor | None = None
    sentence: Tensor | None = None
    beam: int = 1
    chosen: Tensor | None = None

    def reorder(self, new_order: Tensor) -> "Source":
        """Put row `new_order[n]` in row `n`; rows may be repeated and left out. Features stay."""
        sentence = new_order if self.sentence is None else self.sentence[new_order]
        number = len(self.features)
        beam = self.beam if self.beam > 1 else max(1, len(sentence) // number)
        if len(sentence) % beam or not torch.equal(sentence, sentence[::beam].repeat_interleave(beam)):
            beam = 1
        chosen = sentence[::beam]
        everything = len(chosen) == number and torch.equal(chosen, torch.arange(number, device=chosen.device))
        return self._replace(sentence=sentence, beam=beam, chosen=None if everything else chosen)

    def choose(self, of_sentences: Tensor | None) -> Tensor | None:
        """Select the chosen sentences: `(S, ...)` to `(N / beam, ...)`."""
        if of_sentences is None or self.chosen is None:
            return of_sentences
        return of_sentences.index_select(0, self.chosen)
