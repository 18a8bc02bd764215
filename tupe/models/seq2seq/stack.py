"""A side of a translation: an encoder's parts, with fairseq's scale of embeddings and Vaswani et al.'s positions."""

import math
from argparse import Namespace
from typing import Any

from fairseq.modules import SinusoidalPositionalEmbedding
from torch import Tensor, nn

from tupe.encoder.encoder import EncoderBase
from tupe.position import PositionTable


class SinusoidalTable(nn.Module):
    """Vaswani et al.'s vectors, of any length; the first position is fairseq's 2 (its `padding_idx + 1`)."""

    weight: Tensor
    first = 2

    def __init__(self, embed_dim: int) -> None:
        super().__init__()
        self.embed_dim = embed_dim
        self.register_buffer("weight", self.make(128), persistent=False)

    def make(self, length: int) -> Tensor:
        return SinusoidalPositionalEmbedding.get_embedding(self.first + length, self.embed_dim)[self.first :]

    def forward(self, length: int) -> Tensor:
        """Return the vectors of the first `length` positions, `(length, d)`."""
        if length > len(self.weight):
            self.weight = self.make(1 << (length - 1).bit_length()).to(self.weight)
        return self.weight[:length]


class Stack(EncoderBase):
    """The parts of an encoder with the embeddings of fairseq's `transformer`, which are multiplied by `sqrt(d)`.

    The arguments are those of `EncoderBase.build`.
    """

    def __init__(self, args: Namespace, *others: Any) -> None:
        super().__init__()
        self.build(args, *others)
        self.embed_scale = math.sqrt(args.encoder_embed_dim)
        if args.absolute == "sinusoidal":
            self.input_positions = SinusoidalTable(args.encoder_embed_dim)
        table = isinstance(self.input_positions, PositionTable)
        #: The longest sequence that has positions: that of a table, or infinity.
        self.max_positions = args.max_positions if table else self.position_bias.max_positions
