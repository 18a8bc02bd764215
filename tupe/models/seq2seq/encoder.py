"""The encoder of a translation."""

from argparse import Namespace

from fairseq.data import Dictionary
from fairseq.models import FairseqEncoder
from torch import Tensor, nn

from tupe.models.layer import TupeEncoderLayer
from tupe.models.seq2seq.config import encoder_args
from tupe.models.seq2seq.source import Source
from tupe.models.seq2seq.stack import Stack
from tupe.models.unpadded import Group
from tupe.position.precision import compute_dtype


class Seq2SeqEncoder(FairseqEncoder):
    """Encoder of source tokens to features, with the layers of the BERT-style encoders."""

    def __init__(self, args: Namespace, dictionary: Dictionary, embed_tokens: nn.Embedding) -> None:
        super().__init__(dictionary)
        self.stack = Stack(encoder_args(args), embed_tokens, TupeEncoderLayer)

    def max_positions(self) -> float:
        return int(min(super().max_positions(), self.stack.max_positions))

    def forward(self, src_tokens: Tensor, src_lengths: Tensor | None = None, **unused: object) -> Source:
        """Compute the features of `src_tokens` `(B, T)`, each row `... </s>`, padded on the right."""
        padding = src_tokens.eq(self.dictionary.pad())
        if padding.device.type == "cpu" and not padding.any():  # a GPU would have to be waited for
            padding = None
        x = self.stack.embed(src_tokens)
        if padding is not None:
            x = x.masked_fill(padding.unsqueeze(-1), 0)
        for layer, position in zip(self.stack.layers, self.stack.layer_terms(x.shape[1], x.device, compute_dtype(x))):
            x = self.stack.run(layer, x, (position,), (Group(padding),))
        return Source(self.stack.layer_norm(x), padding)

    def reorder_encoder_out(self, encoder_out: Source, new_order: Tensor) -> Source:
        """See `Source.reorder`."""
        return encoder_out.reorder(new_order)
