"""The encoder of a translation."""

from argparse import Namespace

from fairseq.data import Dictionary
from fairseq.models import FairseqEncoder
from torch import Tensor, nn

from tupe.models.seq2seq.config import encoder_args
from tupe.models.seq2seq.source import Source
from tupe.models.seq2seq.stack import Stack


class Seq2SeqEncoder(FairseqEncoder):
    """Encoder of source tokens to features, with the layers of the BERT-style encoders."""

    def __init__(self, args: Namespace, dictionary: Dictionary, embed_tokens: nn.Embedding) -> None:
        super().__init__(dictionary)
        self.stack = Stack(encoder_args(args), embed_tokens, dictionary.eos())

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
