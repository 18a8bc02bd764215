"""The encoder: embeds tokens, computes the position terms once per batch, and runs the layers with them."""

import functools
import math
from argparse import Namespace
from collections.abc import Callable, Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from tupe.attention.biased import takes_parts
from tupe.attention.packed import takes_packed
from tupe.encoder.build import build_position_bias, build_rotation, build_segment_attention, embedding_width
from tupe.encoder.layer import AttentionInputs, Layer, compiled
from tupe.encoder.unpadded import Tokens, packed, without_padding
from tupe.layers import Dropout, Linear, is_traced
from tupe.position.absolute import PositionTable
from tupe.position.length import check_length
from tupe.position.precision import compute_dtype
from tupe.position.segment import SegmentTable, segment_ids
from tupe.position.terms import Terms

#: Removing the padding of a batch is worth its cost if less than this fraction of its slots are tokens.
UNPAD_BELOW = 0.95
#: A batch of which every slot is computed.
ALL_SLOTS = Tokens()


class EncoderBase(nn.Module):
    """Modules that encoders, decoders and the exported Transformers model share; `build` makes them."""

    embed_scale = 1.0

    def build(
        self, args: Namespace, embed_tokens: nn.Embedding, eos: int, layer: type[Layer] = Layer, *options: int
    ) -> None:
        """Make the modules.

        Args:
            args: namespace with the encoder's fields of `TupeConfig`, `max_positions` included.
            embed_tokens: token embeddings, with `padding_idx`.
            eos: index of the separator `</s>`, which separates the segments.
            layer: class of the layers.
            options: extra positional arguments of `layer`.
        """
        width, embedding_dim, bias = args.encoder_embed_dim, embedding_width(args), not args.no_biases
        norm = functools.partial(nn.LayerNorm, eps=args.layer_norm_eps, bias=bias)
        self.num_heads, self.max_positions = args.encoder_attention_heads, args.max_positions
        self.window, self.global_every = args.attention_window, args.global_every
        self.attention_backend, self.unpad = args.attention_backend, str(args.unpad)
        self.compile_layers, self.checkpoint_activations = args.compile, args.checkpoint_activations
        self.eos, self.pair_separators = eos, args.pair_separators
        #: Whether kernels may compute the bias from its parts: no layer changes it, and each position is a key.
        self.allows_parts = not (args.relative in ("shaw", "deberta") or args.linformer_k or self.window)
        self.layers_share = args.sharing == "layer"
        self.embed_tokens = embed_tokens
        at_input = args.absolute in ("input", "low_rank_input")
        self.input_positions = PositionTable(args.max_positions, embedding_dim) if at_input else None
        self.input_segments = SegmentTable(embedding_dim) if args.segment == "input" else None
        self.position_bias = build_position_bias(args, layer.attention.bidirectional)
        self.local_rotation = build_rotation(args, args.local_rotary_base)
        others = {args.absolute, args.relative, args.segment} - {"none", "input", "sinusoidal"}
        mixable = others <= {"low_rank", "low_rank_input"} and not (self.window or self.position_bias.rotation)
        assert mixable or not args.linformer_k, "linformer_k mixes positions: it allows only input and low_rank terms"
        #: Width of a head's queries and keys.
        self.head_dim = width // self.num_heads * (1 if self.position_bias.phases is None else 2)
        self.segment_attention = build_segment_attention(args)
        self.layernorm_embedding = nn.Identity() if args.no_layernorm_embedding else norm(embedding_dim)
        self.dropout = Dropout(args.dropout)
        self.embedding_projection = nn.Identity() if embedding_dim == width else Linear(embedding_dim, width, bias)
        num_terms = self.position_bias.num_terms
        self.layers = nn.ModuleList(layer(args, num_terms, *options) for _ in range(args.encoder_layers))
        if args.no_first_norm:
            self.layers[0].self_attn_layer_norm = nn.Identity()
        self.layer_norm = norm(width) if args.encoder_normalize_before else nn.Identity()

    def tokens(self, padding: Tensor, num_tokens: int | None = None) -> Tokens:
        """Find the tokens of a batch: all its slots if padding is not removed.

        `padding` `(B, T)` is true at padding, and `num_tokens` is the number of tokens, if known. Without it, features
        are computed at padding too, unless `unpad` is `always`.

        Raises:
            ValueError: for padding on the left. Padding on a GPU is not checked, because that would wait for the GPU.
        """
        on_cpu = padding.device.type == "cpu"
        readable = on_cpu and not is_traced()
        if num_tokens == padding.numel() or (readable and num_tokens is None and not padding.any()):
            return ALL_SLOTS
        if readable and (padding[:, 0] & ~padding.all(1)).any():  # an empty sequence may be all padding
            raise ValueError(
                "padding hides the first token of a sequence, but positions count from the first column: pad on the "
                "right (in Transformers, tokenizer.padding_side = 'right')"
            )
        few = on_cpu and num_tokens is not None and num_tokens < UNPAD_BELOW * padding.numel()
        if is_traced() or not {"auto": few, "always": True, "never": False}[self.unpad]:
            return Tokens(padding)
        dtype = compute_dtype(self.embed_tokens.weight)
        if self.allows_parts and takes_packed(self.attention_backend, padding.device, dtype, self.head_dim):
            return packed(padding, num_tokens)
        return without_padding(padding, num_tokens, self.num_heads if on_cpu and not self.compile_layers else None)

    def segments(self, src_tokens: Tensor) -> Tensor | None:
        """Return which of `src_tokens` `(B, T)` are in segment 1: `(B, T)`, bool; `None` without segments."""
        if self.input_segments is None and self.segment_attention is None:
            return None
        return segment_ids(src_tokens, self.eos, self.pair_separators, self.embed_tokens.padding_idx)

    def embed(self, x: Tensor, tokens: Tokens = ALL_SLOTS, segments: Tensor | None = None, first: int = 0) -> Tensor:
        """Compute the input of the first layer, `(B, T, d)` with zeros at padding, or without padding `(N, d)`.

        `x` holds the token embeddings, at the positions from `first` on.
        """
        end = first + (x.shape[1] if tokens.shape is None else tokens.shape[1])
        check_length(end, self.max_positions)
        x = x if self.embed_scale == 1 else self.embed_scale * x
        if self.input_positions is not None:
            positions = self.input_positions(end)[first:]
            x = x + (positions if tokens.places is None else F.embedding(tokens.places % tokens.shape[1], positions))
        if self.input_segments is not None:
            x = x + self.input_segments(tokens.unpad(segments))
        x = self.embedding_projection(self.dropout(self.layernorm_embedding(x)))
        return x if tokens.padding is None or tokens.places is not None else x.masked_fill(tokens.padding[..., None], 0)

    def terms(self, length: int, segments: Tensor | None = None, pairs: bool | None = None) -> Terms:
        """Compute the position terms of all layers; `pairs`, if known, is whether any sequence has two `segments`."""
        terms = self.position_bias(length)
        if self.segment_attention is None:
            return terms
        if is_traced():
            pairs = True
        elif pairs is None or self.pair_separators == 1:  # a caller's `pairs` assumes two separators
            pairs = bool(segments.any())  # this waits for a GPU, but saves it much more time
        segments = segments if pairs else segments[:1, :1]  # one id represents every token
        return terms._replace(segment=self.segment_attention(), segments=segments)

    def run(self, x: Tensor, tokens: Tokens, terms: Terms, keep: bool = False) -> tuple[Tensor, list[Tensor] | None]:
        """Run the layers; return the features and, if `keep`, the padded states before and after each layer."""
        states = [tokens.pad(x)] if keep else None
        for layer, groups in zip(self.layers, self.attention_inputs(terms, tokens, x)):
            x = self.run_layer(layer, x, tokens, groups)
            if states is not None:
                states.append(tokens.pad(x))
        return self.layer_norm(x), states

    def run_layer(self, layer: Layer, *inputs: object) -> Tensor:
        """Call `layer(*inputs)`, in training compiled or checkpointed as the model's fields specify."""
        if not layer.training:
            return layer(*inputs)
        run = functools.partial(compiled(type(layer)), layer) if self.compile_layers else layer
        return checkpoint(run, *inputs, use_reentrant=False) if self.checkpoint_activations else run(*inputs)

    def attention_inputs(self, terms: Terms, tokens: Tokens, x: Tensor) -> Iterator[tuple[AttentionInputs, ...]]:
        """Yield the attention inputs of each layer, one per group of `tokens`; `x` is the input of the first layer."""
        groups, dtype, number = tokens.groups or (tokens,), compute_dtype(x), len(self.layers)
        local_rotation = terms.rotation
        if self.local_rotation is not None:
            place = torch.arange(terms.length, dtype=terms.rotation.dtype, device=terms.rotation.device)
            local_rotation = self.local_rotation(place)
        inputs: dict[bool, tuple[AttentionInputs, ...]] = {}  # key: whether the layer has a window
        for layer, own in enumerate([terms] * number if self.layers_share else terms.split(number)):
            local = self.window > 0 and (self.global_every == 0 or layer % self.global_every > 0)
            if not self.layers_share or local not in inputs:
                own = own._replace(rotation=local_rotation) if local else own
                inputs[local] = tuple(self.group_inputs(group, own, local, dtype, x) for group in groups)
            yield inputs[local]

    def group_inputs(self, group: Tokens, terms: Terms, local: bool, dtype: torch.dtype, x: Tensor) -> AttentionInputs:
        """Return the terms of a group, rounded to the layers' type, and their bias, with the window if `local`."""
        if group.shape is not None:
            if group.shape[1] < terms.length:
                terms = terms.slice(group.shape[1], self.position_bias.num_keys)
            if terms.segments is not None and terms.segments.numel() > 1:
                terms = terms._replace(segments=terms.segments[group.rows])
        device = self.embed_tokens.weight.device
        if self.allows_parts and takes_parts(self.attention_backend, terms, device, dtype, self.head_dim):
            if terms.segments is not None:  # `(1, 1)` if no sequence has a second segment
                terms = terms._replace(segments=terms.segments.expand(group.shape or x.shape[:2]))
            return AttentionInputs(group, terms.rounded(dtype), terms)
        bias = terms.bias
        if local:
            bias = hide_far(bias, self.window, terms.length, device, sees_cls=self.global_every == 0)
        return AttentionInputs(group, terms.rounded(dtype), None if bias is None else bias.to(dtype))


class Encoder(EncoderBase):
    """Encoder of tokens `(B, T)`, which start with `[CLS]` (`<s>`) and are padded on the right.

    The arguments are those of `EncoderBase.build`.
    """

    def __init__(self, args: Namespace, embed_tokens: nn.Embedding, eos: int) -> None:
        super().__init__()
        self.build(args, embed_tokens, eos)

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
            num_tokens: number of tokens that are not padding; `None` if unknown.
            return_all_hiddens: also return the input of the first layer and the output of every layer.
            head: function of the features `(..., d)`, whose output `(...)` is returned instead of them.
            pairs: whether any sequence has two segments; `None` if unknown.

        Returns:
            The features `(B, T, d)`, meaningless at padding, and the `L + 1` hidden states `(B, T, d)` or `None`.

        Raises:
            ValueError: for a sequence longer than `max_positions`.
        """
        tokens = self.tokens(src_tokens.eq(self.embed_tokens.padding_idx), num_tokens)
        segments = self.segments(src_tokens)
        x = self.embed(self.embed_tokens(tokens.unpad(src_tokens)), tokens, segments)  # B T d, or N d
        terms = self.terms(src_tokens.shape[1], segments, pairs)  # once per batch
        x, states = self.run(x, tokens, terms, return_all_hiddens)
        x = x if head is None else head(x)
        return tokens.pad(x), states


def hide_far(bias: Tensor | None, reach: int, length: int, device: torch.device, sees_cls: bool) -> Tensor:
    """Return `bias` with -inf at distances above `reach`; if `sees_cls`, not in the row and column of `[CLS]`."""
    place = torch.arange(length, device=device)
    far = (place - place[:, None]).abs() > reach
    if sees_cls:
        far = far & (place > 0) & (place[:, None] > 0)
    bias = torch.zeros(1, length, length, device=device) if bias is None else bias
    return bias.masked_fill(far, -math.inf)
