"""The encoder: words (and for BERT, positions and segments) in; the position terms, computed once; the layers."""

from __future__ import annotations

import itertools
from argparse import Namespace
from collections.abc import Iterator
from typing import Optional

import torch
from torch import Tensor, nn

from tupe.attention import prefers_parts
from tupe.dropout import Dropout
from tupe.linear import project
from tupe.models.layer import TupeEncoderLayer, run_layer
from tupe.models.position import build_position_bias, build_segment_attention, embedding_width, parts_width
from tupe.position import PositionTable, PositionTerms, SegmentTable, segment_ids
from tupe.position.length import check_length
from tupe.position.precision import compute_dtype
from tupe.tracing import is_traced


class TupeEncoder(nn.Module):
    """Tokens to features. Sequences start with `[CLS]` (`<s>`) and are padded on the right.

    Args:
        args: the fields of `TupeConfig`.
        embed_tokens: word embeddings, with `padding_idx`.
        eos: index of the separator `</s>`, which tells the segments apart.
    """

    def __init__(self, args: Namespace, embed_tokens: nn.Embedding, eos: int) -> None:
        super().__init__()
        width, embedding_dim = args.encoder_embed_dim, embedding_width(args)
        self.max_positions = args.max_positions
        self.checkpoint_activations = args.checkpoint_activations
        self.compile = args.compile
        self.attention_backend = args.attention_backend
        self.eos = eos
        self.embed_tokens = embed_tokens
        at_input = args.absolute in ("input", "low_rank_input")
        self.input_positions = PositionTable(args.max_positions, embedding_dim) if at_input else None
        self.input_segments = SegmentTable(embedding_dim) if args.segment == "input" else None
        self.layers_share = args.sharing == "layer"
        self.position_bias = build_position_bias(args)
        self.segment_attention = build_segment_attention(args)
        self.parts_width = parts_width(args, self.position_bias)
        self.layernorm_embedding = nn.Identity() if args.no_layernorm_embedding else nn.LayerNorm(embedding_dim)
        self.dropout = Dropout(args.dropout)
        self.embedding_projection = nn.Identity() if embedding_dim == width else nn.Linear(embedding_dim, width)
        self.layers = nn.ModuleList(
            TupeEncoderLayer(args, self.position_bias.num_terms) for _ in range(args.encoder_layers)
        )
        self.layer_norm = nn.LayerNorm(width) if args.encoder_normalize_before else nn.Identity()

    def key_padding_mask(self, src_tokens: Tensor, has_padding: Optional[bool]) -> Optional[Tensor]:
        """`(B, T)`, true at padding; nothing where there is none and that is known without asking the device."""
        if has_padding is False:
            return None
        mask = src_tokens.eq(self.embed_tokens.padding_idx)
        if has_padding is None and mask.device.type == "cpu" and not is_traced() and not mask.any():
            return None
        return mask

    def layer_terms(self, src_tokens: Tensor, dtype: torch.dtype) -> Iterator[PositionTerms]:
        """The position terms of each layer in turn; what the layers share is computed once."""
        length, segments, pairs = src_tokens.shape[1], None, False
        if self.segment_attention is not None:
            segments = segment_ids(src_tokens, self.eos)
            pairs = is_traced() or bool(segments.any())  # waits for a GPU, which saves it much more than the time
        in_parts = self.parts_width is not None and prefers_parts(
            self.attention_backend, src_tokens.device, length, self.parts_width, pairs
        )
        terms = self.position_bias(length, dtype, in_parts)
        if segments is not None:
            if not in_parts and not pairs:  # one sentence each: one cell stands for all
                segments = segments[:1, :1]
            if in_parts or self.layers_share or segments.numel() == 1:
                terms = terms.add_segments(self.segment_attention().to(dtype), segments, in_parts)
                segments = None
        if self.layers_share:
            yield from itertools.repeat(terms, len(self.layers))
        else:
            for layer, own in enumerate(terms.split(len(self.layers))):
                if segments is not None:
                    own = own.add_segments(self.segment_attention(layer=layer).to(dtype), segments, in_parts)
                yield own

    def forward(
        self, src_tokens: Tensor, has_padding: Optional[bool] = None, return_all_hiddens: bool = False
    ) -> tuple[Tensor, Optional[list[Tensor]]]:
        """Features of `src_tokens`.

        Args:
            src_tokens: `(B, T)`, `T` at most `max_positions`.
            has_padding: whether any token is padding, where the caller knows; `None` to look.
            return_all_hiddens: also return the input of the first layer and the output of each.

        Returns:
            features `(B, T, d)`, and the `L + 1` hidden states `(B, T, d)` or `None`.

        Raises:
            UserError: for a sequence longer than `max_positions`.
        """
        length = src_tokens.shape[1]
        check_length(length, self.max_positions)
        mask = self.key_padding_mask(src_tokens, has_padding)
        x = self.embed_tokens(src_tokens)
        if self.input_positions is not None:
            x = x + self.input_positions(length)
        if self.input_segments is not None:
            x = x + self.input_segments(segment_ids(src_tokens, self.eos))
        x = project(self.embedding_projection, self.dropout(self.layernorm_embedding(x)))
        if mask is not None:
            x = x.masked_fill(mask.unsqueeze(-1), 0)
        states = [x] if return_all_hiddens else None
        for layer, position in zip(self.layers, self.layer_terms(src_tokens, compute_dtype(x))):
            x = run_layer(layer, x, position, mask, compile=self.compile, recompute=self.checkpoint_activations)
            if states is not None:
                states.append(x)
        return self.layer_norm(x), states
