"""The encoder of a translation. Its output has each sentence once, for all hypotheses of the decoder."""

from argparse import Namespace
from typing import NamedTuple

import torch
from fairseq.data import Dictionary
from fairseq.models import FairseqEncoder
from torch import Tensor, nn

from tupe.models.seq2seq.stack import Stack


class Source(NamedTuple):
    """The encoder's output for `S` sentences, read by `N` rows of the decoder.

    features: `(S, n_s, d)`.
    padding: `(S, n_s)`, true at padding; `None` without padding.
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
        """Put row `new_order[n]` in row `n`; rows may be repeated and left out. Features are not copied."""
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


class Seq2SeqEncoder(FairseqEncoder):
    """Encoder that maps source tokens to features, with the layers of the BERT-style encoders."""

    def __init__(self, args: Namespace, dictionary: Dictionary, embed_tokens: nn.Embedding) -> None:
        super().__init__(dictionary)
        args = Namespace(**{**vars(args), "max_positions": args.max_source_positions})
        self.stack = Stack(args, embed_tokens, dictionary.eos())

    def max_positions(self) -> float:
        return int(min(super().max_positions(), self.stack.max_positions))

    def forward(self, src_tokens: Tensor, src_lengths: Tensor | None = None, **unused: object) -> Source:
        """Compute the features of `src_tokens` `(B, T)`, each row `... </s>`, padded on the right."""
        padding = src_tokens.eq(self.dictionary.pad())
        tokens = self.stack.tokens(padding)
        x = self.stack.embed(self.stack.embed_tokens(tokens.unpad(src_tokens)), tokens)
        x, _ = self.stack.run(x, tokens, self.stack.terms(src_tokens.shape[1]))
        return Source(tokens.pad(x), None if tokens.padding is None else padding)

    def reorder_encoder_out(self, encoder_out: Source, new_order: Tensor) -> Source:
        """See `Source.reorder`."""
        return encoder_out.reorder(new_order)
