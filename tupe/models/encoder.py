"""The encoder: embeds tokens, computes the position terms once, and runs the layers with them."""

import itertools
from argparse import Namespace
from collections.abc import Callable, Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tupe.attention import prefers_structured, takes_packed
from tupe.layers import Dropout, Linear
from tupe.models.layer import TupeEncoderLayer, run_layer
from tupe.models.position import (
    build_position_bias,
    build_segment_attention,
    embedding_width,
    structured_width,
)
from tupe.models.unpadded import Group, Unpadded
from tupe.position import PositionTable, PositionTerms, SegmentTable, segment_ids
from tupe.position.length import check_length
from tupe.position.precision import compute_dtype
from tupe.systems import IN_LAYER
from tupe.tracing import is_traced

#: Removing the padding of a batch is worth its cost where less than this share of its slots are tokens.
_WORTH_IT = 0.95


class TupeEncoder(nn.Module):
    """Encoder of tokens `(B, T)`, which start with `[CLS]` (`<s>`) and are padded on the right.

    Args:
        args: namespace with the fields of `TupeConfig`.
        embed_tokens: word embeddings, with `padding_idx`.
        eos: index of the separator `</s>`, which tells the segments apart.
    """

    def __init__(self, args: Namespace, embed_tokens: nn.Embedding, eos: int) -> None:
        super().__init__()
        width, embedding_dim = args.encoder_embed_dim, embedding_width(args)
        eps = args.layer_norm_eps
        self.max_positions = args.max_positions
        self.checkpoint_activations = args.checkpoint_activations
        self.compile = args.compile
        self.attention_backend = args.attention_backend
        self.num_heads = args.encoder_attention_heads
        self.head_dim = width // args.encoder_attention_heads
        self.unpad = str(args.unpad)
        self.eos, self.pair_separators = eos, args.pair_separators
        self.embed_tokens = embed_tokens
        at_input = args.absolute in ("input", "low_rank_input")
        self.input_positions = PositionTable(args.max_positions, embedding_dim) if at_input else None
        self.input_segments = SegmentTable(embedding_dim) if args.segment == "input" else None
        self.window = args.attention_window
        self.packable = not (args.relative in IN_LAYER or args.linformer_k or self.window)
        self.layers_share = args.sharing == "layer"
        self.position_bias = build_position_bias(args)
        self.segment_attention = build_segment_attention(args)
        self.structured_width = structured_width(args, self.position_bias)
        self.layernorm_embedding = nn.Identity() if args.no_layernorm_embedding else nn.LayerNorm(embedding_dim, eps)
        self.dropout = Dropout(args.dropout)
        self.embedding_projection = nn.Identity() if embedding_dim == width else Linear(embedding_dim, width)
        self.layers = nn.ModuleList(
            TupeEncoderLayer(args, self.position_bias.num_terms) for _ in range(args.encoder_layers)
        )
        self.layer_norm = nn.LayerNorm(width, eps) if args.encoder_normalize_before else nn.Identity()

    def key_padding_mask(self, src_tokens: Tensor, num_tokens: int | None) -> Tensor | None:
        """Return a mask `(B, T)`, true at padding; `None` if there is none and no GPU must be asked to know it."""
        if num_tokens is not None and num_tokens == src_tokens.numel():
            return None
        mask = src_tokens.eq(self.embed_tokens.padding_idx)
        if num_tokens is None and mask.device.type == "cpu" and not is_traced() and not mask.any():
            return None
        return mask

    def without_padding(self, mask: Tensor | None, num_tokens: int | None) -> Unpadded | None:
        """Return the tokens' places if layers are to run without padding, else `None`; see `EncoderConfig.unpad`.

        Unless `unpad` is `always`, a caller that gives no `num_tokens` gets features at padding too.
        """
        if mask is None or self.unpad == "never" or is_traced() or (num_tokens is None and mask.is_meta):
            return None
        on_cpu = mask.device.type == "cpu"
        if self.unpad == "auto" and not (on_cpu and num_tokens is not None and num_tokens < _WORTH_IT * mask.numel()):
            return None
        dtype = compute_dtype(next(self.layers.parameters()))
        if self.packable and takes_packed(self.attention_backend, mask.device, dtype, self.head_dim):
            return Unpadded.packed(mask, num_tokens)
        return Unpadded.of(mask, num_tokens, self.num_heads if on_cpu and not self.compile else None)

    def segments(self, src_tokens: Tensor) -> Tensor:
        """Tell which of `src_tokens` `(B, T)` are in segment 1: `(B, T)`, bool."""
        return segment_ids(src_tokens, self.eos, self.pair_separators, self.embed_tokens.padding_idx)

    def layer_terms(
        self,
        src_tokens: Tensor,
        dtype: torch.dtype,
        groups: tuple[Group, ...] = (Group(None),),
        pairs: bool | None = None,
    ) -> Iterator[tuple[PositionTerms, ...]]:
        """Yield for each layer the position terms of each of `groups`; what they share is computed once."""
        length, segments = src_tokens.shape[1], None
        if self.segment_attention is None:
            pairs = False
        else:
            segments = self.segments(src_tokens)
            if is_traced():
                pairs = True
            elif pairs is None or self.pair_separators == 1:  # a caller's `pairs` counts on two separators
                # this waits for a GPU, but saves it much more time
                pairs = bool(segments.any())
        structured = self.structured_width is not None and not self.window and prefers_structured(
            self.attention_backend, src_tokens.device, length, self.structured_width, pairs,
            self.position_bias.in_factors, dtype,
        )  # fmt: skip
        terms = self.position_bias(length, dtype, structured)
        if self.window:
            sets = 1 if self.layers_share else len(self.layers)
            zeros = torch.zeros((), dtype=dtype, device=src_tokens.device).expand(sets, length, length)
            terms = terms.within(self.window, zeros)
        if segments is not None and not structured and not pairs:
            segments = segments[:1, :1]  # no sequence has a second segment, so one cell is that of all
        by_group = []
        for group in groups:
            group_terms, group_segments = terms, segments
            if group.length not in (None, length):
                group_terms = terms.slice(group.length, self.position_bias.num_keys)
            if group.rows is not None and segments is not None and segments.numel() > 1:
                group_segments = segments[group.rows, : group.length]
            group_terms = group_terms._replace(rotation=group.of_tokens(group_terms.rotation))
            by_group.append(self.with_segments(group_terms, group_segments, dtype, structured))
        return zip(*by_group)

    def with_segments(
        self, terms: PositionTerms, segments: Tensor | None, dtype: torch.dtype, structured: bool
    ) -> Iterator[PositionTerms]:
        """Yield the terms of each layer with its values for `segments`: `(B, T)`, or `(1, 1)` if all are the same."""
        if segments is not None and (structured or self.layers_share or segments.numel() == 1):
            terms = terms.add_segments(self.segment_attention().to(dtype), segments, structured)
            segments = None
        if self.layers_share:
            yield from itertools.repeat(terms, len(self.layers))
        else:
            for layer, layer_terms in enumerate(terms.split(len(self.layers))):
                if segments is not None:
                    values = self.segment_attention(layer=layer).to(dtype)
                    layer_terms = layer_terms.add_segments(values, segments, structured)
                yield layer_terms

    def embed(self, src_tokens: Tensor, mask: Tensor | None, unpadded: Unpadded | None) -> Tensor:
        """Compute the input of the first layer: `(B, T, d)` with zeros at padding, or without padding `(N, d)`."""
        length = src_tokens.shape[1]
        x = self.embed_tokens(src_tokens if unpadded is None else unpadded.unpad(src_tokens))
        if self.input_positions is not None:
            positions = self.input_positions(length)
            x = x + (positions if unpadded is None else F.embedding(unpadded.places % length, positions))
        if self.input_segments is not None:
            segments = self.segments(src_tokens)
            x = x + self.input_segments(segments if unpadded is None else unpadded.unpad(segments))
        x = self.embedding_projection(self.dropout(self.layernorm_embedding(x)))
        return x if mask is None or unpadded is not None else x.masked_fill(mask.unsqueeze(-1), 0)

    def forward(
        self,
        src_tokens: Tensor,
        num_tokens: int | None = None,
        return_all_hiddens: bool = False,
        head: Callable[[Tensor], Tensor] | None = None,
        pairs: bool | None = None,
    ) -> tuple[Tensor, list[Tensor] | None]:
        """Compute the features of `src_tokens`.

        Args:
            src_tokens: `(B, T)`, `T` at most `max_positions`.
            num_tokens: number of tokens that are not padding, if the caller knows it; `None` to look.
            return_all_hiddens: also return the input of the first layer and the output of each.
            head: function of the features `(..., d)`, whose output `(...)` is returned in their place.
            pairs: whether any sequence has two segments, if the caller knows it; `None` to look.

        Returns:
            The features `(B, T, d)`, meaningless at padding, and the `L + 1` hidden states `(B, T, d)` or `None`.

        Raises:
            UserError: for a sequence longer than `max_positions`.
        """
        check_length(src_tokens.shape[1], self.max_positions)
        mask = self.key_padding_mask(src_tokens, num_tokens)
        unpadded = None if return_all_hiddens else self.without_padding(mask, num_tokens)
        groups = (Group(mask),) if unpadded is None else unpadded.groups
        x = self.embed(src_tokens, mask, unpadded)
        states = [x] if return_all_hiddens else None
        for layer, position in zip(self.layers, self.layer_terms(src_tokens, compute_dtype(x), groups, pairs)):
            x = run_layer(layer, x, position, groups, compile=self.compile, recompute=self.checkpoint_activations)
            if states is not None:
                states.append(x)
        x = self.layer_norm(x)
        x = x if head is None else head(x)
        return (x if unpadded is None else unpadded.pad(x, *src_tokens.shape)), states
