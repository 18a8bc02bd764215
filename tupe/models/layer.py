"""Transformer layer, batch first, whose attention takes position terms."""

import functools
import math
from argparse import Namespace
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from tupe.attention import biased_attention, packed_attention
from tupe.layers import Dropout, Linear
from tupe.models.activation import activation_function
from tupe.models.linformer import LengthProjection
from tupe.models.shaw import attention_with_relative_values
from tupe.models.unpadded import Group, split
from tupe.position import DisentangledRelative, PositionTerms, ShawRelative, StructuredBias, rotate


class Attention(nn.Module):
    """Multi-head attention of `x` to `y`, with position terms `query`, `key` and `bias`.

        softmax(((x W^Q + query)(y W^K + key)^T) / sqrt(num_terms d_h) + bias) y W^V W^O

    One weight holds `W^Q, W^K, W^V`: where `y` is `x`, there is one product.

    Args:
        embed_dim: `d`.
        num_heads: `H`.
        num_terms: number of products that the logit sums.
        dropout: probability with which an attention weight is dropped.
        backend: the `backend` of `tupe.attention.biased_attention`.
        relative: Shaw's or DeBERTa's relative positions, whose term is added to `bias`.
        projection: Linformer's `E`; keys and values are then made from `E x` instead of `x`.
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        num_terms: int,
        dropout: float,
        backend: str,
        *,
        relative: ShawRelative | DisentangledRelative | None = None,
        projection: LengthProjection | None = None,
    ) -> None:
        super().__init__()
        assert embed_dim % num_heads == 0, f"{num_heads} heads do not divide the width {embed_dim}"
        self.num_heads = num_heads
        self.scale = 1 / math.sqrt(num_terms * (embed_dim // num_heads))
        self.dropout = dropout
        self.backend = backend
        self.qkv_proj = Linear(embed_dim, 3 * embed_dim)
        self.out_proj = Linear(embed_dim, embed_dim)
        self.relative = relative
        self.projection = projection

    def in_heads(self, x: Tensor) -> Tensor:
        """Turn `(B, T, d)` into `(B, H, T, d_h)`."""
        return x.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)

    def part(self, x: Tensor, rows: slice) -> Tensor:
        """Compute some columns of `x (W^Q, W^K, W^V)`, using only those `rows` of the weight."""
        if isinstance(self.qkv_proj, Linear):
            return self.qkv_proj(x, rows)
        return self.qkv_proj(x)[..., rows]  # an adapter, which takes no rows

    def query(self, x: Tensor) -> Tensor:
        """Compute `x W^Q`, `(B, H, T, d_h)`, of `x` `(B, T, d)`."""
        return self.in_heads(self.part(x, slice(x.shape[-1])))

    def key_value(self, y: Tensor) -> tuple[Tensor, Tensor]:
        """Compute `y W^K, y W^V`, `(B, H, m, d_h)` each, of `y` `(B, m, d)`."""
        key, value = self.part(y, slice(y.shape[-1], None)).chunk(2, dim=-1)
        return self.in_heads(key), self.in_heads(value)

    def with_terms(
        self, query: Tensor, key: Tensor, value: Tensor, position: PositionTerms
    ) -> tuple[Tensor, Tensor, Tensor, Tensor | StructuredBias | None]:
        """Apply the terms; return query, key, value and bias for logits `scale query key^T + bias`."""
        if position.query is not None:
            query, key = query + position.query, key + position.key
        bias, relative = position.bias, None
        if isinstance(self.relative, DisentangledRelative):  # of p2c, distances are the queries
            relative = self.relative(query, key, position.embeddings, self.scale, self.part)  # (B, H, T, T)
        elif self.relative is not None and query.shape[2] == 1:
            key, value = self.relative.of_one_query(key, value)
        elif self.relative is not None:
            relative = self.relative(query, self.scale, key.shape[2])  # (B, H, T, m)
        if relative is not None:
            bias = relative if bias is None else relative + bias
        return query, key, value, bias

    def mix(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        position: PositionTerms,
        key_padding_mask: Tensor | None,
        causal: bool = False,
    ) -> Tensor:
        """Attend with position terms, before `W^O`.

        Args:
            query: `(B, H, T, d_h)`.
            key, value: `(B, H, m, d_h)`.
            position: the terms.
            key_padding_mask: `(B, m)`, true at padding.
            causal: whether a query sees only keys up to its own position.

        Returns:
            `(B, T, d)`.
        """
        query, key, value, bias = self.with_terms(query, key, value, position)
        options = {
            "key_padding_mask": key_padding_mask,
            "scale": self.scale,
            "dropout_p": self.dropout,
            "training": self.training,
            "causal": causal,
        }
        if self.relative is not None and self.relative.value is not None and query.shape[2] > 1:
            out = attention_with_relative_values(query, key, value, bias, self.relative, **options)
        else:
            out = biased_attention(query, key, value, bias, **options, backend=self.backend)
        return out.transpose(1, 2).flatten(2)  # B H T d_h -> B T d


class SelfAttention(Attention):
    """Attention of a sequence to itself, or to Linformer's projection of it."""

    bidirectional = True

    def projected(self, x: Tensor) -> tuple[Tensor, ...]:
        """Project each token: `x (W^Q, W^K, W^V)` as one tensor, or with Linformer `x W^Q` and `x`."""
        if self.projection is not None:
            return self.part(x, slice(x.shape[-1])), x
        return (self.qkv_proj(x),)

    def rotated(self, projected: Sequence[Tensor], position: PositionTerms) -> Sequence[Tensor]:
        """Rotate queries and keys; return them and the values in heads, `(..., H, d_h)` each.

        Args:
            projected: output of `projected`, which is returned as it is without a rotation.
            position: the terms, whose rotation is `(2, T, r)`, or without padding `(2, n, r)`.
        """
        if position.rotation is None:
            return projected
        qkv = projected[0].unflatten(-1, (3 * self.num_heads, -1))  # B T 3H d_h
        both, value = qkv.split((2 * self.num_heads, self.num_heads), dim=-2)
        query, key = rotate(both, position.rotation).chunk(2, dim=-2)
        return query, key, value

    def parts(self, projected: Sequence[Tensor]) -> Sequence[Tensor]:
        """Split the output of `projected` or `rotated` into queries, keys and values in heads, `(..., H, d_h)` each."""
        if len(projected) == 1:
            return projected[0].unflatten(-1, (3 * self.num_heads, -1)).chunk(3, dim=-2)
        return projected

    def heads(self, projected: Sequence[Tensor], key_padding_mask: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """Split the output of `projected` or `rotated`, `(B, T, ...)`, into queries, keys and values in heads.

        Each is `(B, H, T, d_h)`; with Linformer, keys and values are `(B, H, k, d_h)`.
        """
        if self.projection is not None:
            query, x = projected
            return self.in_heads(query), *self.key_value(self.projection(x, key_padding_mask))  # B T d -> B k d
        query, key, value = self.parts(projected)  # B T 3d -> B T H d_h
        return query.transpose(1, 2), key.transpose(1, 2), value.transpose(1, 2)

    def forward(self, x: Tensor, position: tuple[PositionTerms, ...], groups: tuple[Group, ...]) -> Tensor:
        """Attend within each sequence.

        Args:
            x: `(B, T, d)`, one padded group, or `(N, d)`, the tokens of all `groups` in their order.
            position: the terms of each group.
            groups: the sequences that attend at one length.

        Returns:
            A tensor of the shape of `x`.
        """
        out = []
        for group, terms, *parts in zip(groups, position, *(split(made, groups) for made in self.projected(x))):
            parts = self.rotated(parts, terms)
            if group.cu_seqlens is not None:
                out.append(self.mix_packed(parts, terms, group))  # n 3d -> n d
                continue
            heads = self.heads([group.pad(part) for part in parts], group.padding)  # n 3d -> b t 3d -> b H t d_h
            mask = group.padding if self.projection is None else None
            out.append(group.unpad(self.mix(*heads, terms, mask)))  # b t d -> n d
        return self.out_proj(out[0] if len(out) == 1 else torch.cat(out))

    def mix_packed(self, projected: Sequence[Tensor], position: PositionTerms, group: Group) -> Tensor:
        """Attend like `mix`, for packed sequences: the output of `projected` or `rotated`, `(n, ...)`, to `(n, d)`."""
        query, key, value = self.parts(projected)  # n H d_h
        bias = position.bias
        if position.query is not None:
            places = group.places % group.length
            query = query + position.query[:, places].transpose(0, 1)  # H t d_h -> n H d_h
            key = key + position.key[:, places].transpose(0, 1)
        if isinstance(bias, StructuredBias) and bias.segments is not None:
            bias = bias._replace(segments=bias.segments.flatten()[group.places])  # b t -> n
        out = packed_attention(
            query,
            key,
            value,
            bias,
            cu_seqlens=group.cu_seqlens,
            max_length=group.length,
            key_padding_mask=group.padding,
            scale=self.scale,
            dropout_p=self.dropout,
            training=self.training,
            backend=self.backend,
        )
        return out.flatten(1)  # n H d_h -> n d


def build_self_attention(
    args: Namespace, num_terms: int, attention: type[SelfAttention] = SelfAttention
) -> SelfAttention:
    """Build the attention of one layer, with what the configuration has there: Shaw's, DeBERTa's, Linformer's."""
    width, heads = args.encoder_embed_dim, args.encoder_attention_heads
    relative = projection = None
    if args.relative == "shaw":
        relative = ShawRelative(width // heads, args.relative_max_distance, args.shaw_values, attention.bidirectional)
    if args.relative == "deberta":
        relative = DisentangledRelative()
    if args.linformer_k:
        projection = LengthProjection(args.max_positions, args.linformer_k)
    dropout, backend = args.attention_dropout, args.attention_backend
    return attention(width, heads, num_terms, dropout, backend, relative=relative, projection=projection)


class TupeEncoderLayer(nn.Module):
    """Transformer layer: attention and feed-forward part, each with a residual; post-norm (BERT) or pre-norm."""

    attention = SelfAttention

    def __init__(self, args: Namespace, num_terms: int) -> None:
        super().__init__()
        width = args.encoder_embed_dim
        self.normalize_before = args.encoder_normalize_before
        self.self_attn = build_self_attention(args, num_terms, self.attention)
        self.self_attn_layer_norm = nn.LayerNorm(width, args.layer_norm_eps)
        self.activation = activation_function(args.activation_fn)
        self.dropout = Dropout(args.dropout)
        self.activation_dropout = Dropout(args.activation_dropout)
        self.fc1 = Linear(width, args.encoder_ffn_embed_dim)
        self.fc2 = Linear(args.encoder_ffn_embed_dim, width)
        self.final_layer_norm = nn.LayerNorm(width, args.layer_norm_eps)

    def feed_forward(self, x: Tensor) -> Tensor:
        return self.fc2(self.activation_dropout(self.activation(self.fc1(x))))

    def residual(self, part: Callable[[Tensor], Tensor], x: Tensor, norm: nn.LayerNorm) -> Tensor:
        """Compute `x + part(norm(x))` (pre-norm) or `norm(x + part(x))` (post-norm), with dropout on the part."""
        if self.normalize_before:
            return x + self.dropout(part(norm(x)))
        return norm(x + self.dropout(part(x)))

    def forward(self, x: Tensor, *attention: object) -> Tensor:
        """Compute the layer for `x` `(B, T, d)` or `(N, d)`; `attention` goes to `SelfAttention.forward` after `x`."""
        x = self.residual(lambda x: self.self_attn(x, *attention), x, self.self_attn_layer_norm)
        return self.residual(self.feed_forward, x, self.final_layer_norm)


@functools.cache
def compiled_layer(layer: type[TupeEncoderLayer] = TupeEncoderLayer) -> Callable[..., Tensor]:
    """Return the compiled `forward` of a class of layers, one graph for all layers and lengths.

    Call it with the layer as first argument. No module is wrapped, so parameters keep their names.
    """
    return torch.compile(layer.forward, dynamic=True)


def run_layer(layer: TupeEncoderLayer, *inputs: object, compile: bool, recompute: bool) -> Tensor:
    """Call `layer(*inputs)`; in training compiled if `compile`, and computed again in backward if `recompute`."""
    run = functools.partial(compiled_layer(type(layer)), layer) if compile and layer.training else layer
    if recompute and layer.training:
        return checkpoint(run, *inputs, use_reentrant=False)
    return run(*inputs)
