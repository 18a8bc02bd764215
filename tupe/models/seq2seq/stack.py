"""A side of a translation: an encoder's parts, with fairseq's scale of embeddings and Vaswani et al.'s positions."""

import math
from argparse import Namespace
from typing import Any

from fairseq.modules import SinusoidalPositionalEmbedding
from torch import Tensor, nn

from tupe.encoder.encoder import EncoderBase
from tupe.position import PositionTable
from tupe.util import UserError

#: Fields of only the other encoders.
_OTHERS = {"attention_window": 0, "global_every": 0, "local_rotary_base": 0.0, "pair_separators": 2}
_OTHERS |= dict.fromkeys(("gated", "no_biases", "no_first_norm"), False)


def encoder_args(args: Namespace) -> Namespace:
    """Return the fields of the encoder's stack."""
    return Namespace(**{**vars(args), **_OTHERS, "max_positions": args.max_source_positions})


def decoder_args(args: Namespace) -> Namespace:
    """Return the fields of the decoder's stack, by the names of the encoder's."""
    layers = args.decoder_layers or args.encoder_layers
    own = {"max_positions": args.max_target_positions, "encoder_layers": layers}
    return Namespace(**{**vars(args), **_OTHERS, **own})


def check_terms(args: Namespace) -> None:
    """Raise `UserError` for a term of an encoder, whose model would be built and compute something else here."""
    if args.reset != "none" or args.segment != "none":
        raise UserError("reset and segment must be none, because a translation has one text per side, without [CLS].")
    if args.linformer_k or args.relative == "deberta":
        raise UserError("linformer_k must be 0 and relative not deberta, because a decoder does not see later tokens.")


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
