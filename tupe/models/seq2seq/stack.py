"""The part that encoder and decoder have in common: embeddings, position terms and layers."""

import itertools
import math
from argparse import Namespace
from collections.abc import Iterator

import torch
from fairseq.modules import SinusoidalPositionalEmbedding
from torch import Tensor, nn

from tupe.attention import prefers_structured
from tupe.layers import Dropout
from tupe.models.layer import TupeEncoderLayer, run_layer
from tupe.models.position import build_position_bias, structured_width
from tupe.position import PositionTable, PositionTerms
from tupe.position.length import check_length


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


class Stack(nn.Module):
    """Embedding, position terms and layers of a side, as fairseq's `transformer` has them.

    Args:
        args: fields of the side (`tupe.models.seq2seq.config.encoder_args`, `decoder_args`).
        embed_tokens: word embeddings, with `padding_idx`.
        layer: class of the layers.
        options: what its constructor takes after `args` and the number of products in the logit.
    """

    def __init__(
        self, args: Namespace, embed_tokens: nn.Embedding, layer: type[TupeEncoderLayer], *options: object
    ) -> None:
        super().__init__()
        width, eps = args.encoder_embed_dim, args.layer_norm_eps
        self.options = {"compile": args.compile, "recompute": args.checkpoint_activations}
        self.attention_backend = args.attention_backend
        self.embed_tokens = embed_tokens
        self.embed_scale = math.sqrt(width)
        self.input_positions = None
        if args.absolute == "sinusoidal":
            self.input_positions = SinusoidalTable(width)
        elif args.absolute == "input":
            self.input_positions = PositionTable(args.max_positions, width)
        self.layers_share = args.sharing == "layer"
        self.position_bias = build_position_bias(args, layer.attention.bidirectional)
        self.structured_width = structured_width(args, self.position_bias)
        self.layernorm_embedding = nn.Identity() if args.no_layernorm_embedding else nn.LayerNorm(width, eps)
        self.dropout = Dropout(args.dropout)
        terms = self.position_bias.num_terms
        self.layers = nn.ModuleList(layer(args, terms, *options) for _ in range(args.encoder_layers))
        self.layer_norm = nn.LayerNorm(width, eps) if args.encoder_normalize_before else nn.Identity()

    @property
    def max_positions(self) -> float:
        """The longest sequence that has positions: that of a table, or infinity."""
        table = isinstance(self.input_positions, PositionTable)
        return len(self.input_positions.weight) if table else self.position_bias.max_positions

    def embed(self, tokens: Tensor, first: int = 0) -> Tensor:
        """Compute the input of the first layer, `(B, T, d)`, of `tokens` `(B, T)` at the positions from `first` on."""
        end = first + tokens.shape[1]
        check_length(end, self.max_positions)
        x = self.embed_scale * self.embed_tokens(tokens)
        if self.input_positions is not None:
            x = x + self.input_positions(end)[first:]
        return self.dropout(self.layernorm_embedding(x))

    def layer_terms(
        self, length: int, device: torch.device, dtype: torch.dtype, first: int = 0
    ) -> Iterator[PositionTerms]:
        """Yield each layer's position terms, of the queries from `first` on and the first `length` keys."""
        structured = self.structured_width is not None and prefers_structured(
            self.attention_backend, device, length, self.structured_width, False, self.position_bias.in_factors, dtype
        )
        return self.per_layer(self.position_bias(length - first, dtype, structured, query_offset=first))

    def per_layer(self, terms: PositionTerms) -> Iterator[PositionTerms]:
        """Yield the same terms for every layer, or each layer's own."""
        if self.layers_share:
            return itertools.repeat(terms, len(self.layers))
        return iter(terms.split(len(self.layers)))

    def run(self, layer: TupeEncoderLayer, *inputs: object) -> Tensor:
        """Run a layer by `compile` and `checkpoint_activations` of the configuration."""
        return run_layer(layer, *inputs, **self.options)
