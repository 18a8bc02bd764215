"""A stack of a translation model: an encoder's parts, fairseq's scale of embeddings, Vaswani et al.'s positions."""

import math
from argparse import Namespace
from typing import Any

from fairseq.modules import SinusoidalPositionalEmbedding
from torch import Tensor, nn

from tupe.encoder.encoder import EncoderBase
from tupe.position import PositionTable


def decoder_args(args: Namespace) -> Namespace:
    """Return the fields of the decoder's stack, by the names of the encoder's."""
    layers = args.decoder_layers or args.encoder_layers
    return Namespace(**{**vars(args), "max_positions": args.max_target_positions, "encoder_layers": layers})


class SinusoidalTable(SinusoidalPositionalEmbedding):
    """Vaswani et al.'s vectors, of any length; the first position is number 2, fairseq's `padding_idx + 1`."""

    def forward(self, length: int) -> Tensor:
        """Return the vectors of the first `length` positions, `(length, d)`."""
        tokens = self.weights.new_zeros(1, length)  # none of them is padding
        return super().forward(tokens)[0]


class Stack(EncoderBase):
    """The parts of an encoder with the embeddings of fairseq's `transformer`, which are multiplied by `sqrt(d)`.

    The arguments are those of `EncoderBase.build`.
    """

    def __init__(self, args: Namespace, *others: Any) -> None:
        super().__init__()
        self.build(args, *others)
        self.embed_scale = math.sqrt(args.encoder_embed_dim)
        if args.absolute == "sinusoidal":
            self.input_positions = SinusoidalTable(args.encoder_embed_dim, padding_idx=1)
        table = isinstance(self.input_positions, PositionTable)
        if table:
            nn.init.normal_(self.input_positions.weight, std=args.encoder_embed_dim**-0.5)  # as fairseq's
        #: The longest sequence that has positions: the size of a table, or infinity.
        self.max_positions = args.max_positions if table else self.position_bias.max_positions
