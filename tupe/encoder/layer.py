"""Transformer layer, batch first, whose attention takes position terms."""

import functools
import math
from argparse import Namespace
from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tupe.attention.biased import biased_attention, hide_future
from tupe.attention.packed import packed_attention
from tupe.attention.reference import attention_weights
from tupe.encoder.unpadded import Tokens
from tupe.layers import Dropout, Linear, dropout
from tupe.position.deberta import DisentangledRelative
from tupe.position.length import fit_positions, take
from tupe.position.pope import polar
from tupe.position.precision import at_least_float32, no_autocast
from tupe.position.rotary import rotate
from tupe.position.shaw import ShawRelative
from tupe.position.terms import Terms

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "gelu_fast": functools.partial(F.gelu, approximate="tanh"),
    "gelu_accurate": functools.partial(F.gelu, approximate="tanh"),
    "tanh": torch.tanh,
    "linear": nn.Identity(),
}


class AttentionInputs(NamedTuple):
    """Inputs of attention for sequences that attend at one length.

    Attributes:
        tokens: their tokens.
        terms: their terms for the content: `rotation`, `phase`, `content_query`, `content_key` and `distances`.
        bias: added to the logits: `(H, t, t)`, `(b, H, t, t)`, or the `Terms` that it is computed from.
    """

    tokens: Tokens
    terms: Terms
    bias: Tensor | Terms | None


class Attention(nn.Module):
    """Multi-head attention from `x` to `y`, with position terms.

        softmax((x W^Q (y W^K)^T) / sqrt(num_terms d_h) + bias) y W^V W^O

    One weight holds `W^Q, W^K, W^V`, so self-attention needs only one product.

    Args:
        args: the model's fields.
        num_terms: number of products that the logit sums.
    """

    def __init__(self, args: Namespace, num_terms: int) -> None:
        super().__init__()
        width, self.num_heads = args.encoder_embed_dim, args.encoder_attention_heads
        self.scale = 1 / math.sqrt(num_terms * (width // self.num_heads))
        self.dropout, self.backend = args.attention_dropout, args.attention_backend
        self.qkv_proj = Linear(width, 3 * width, bias=not args.no_biases)
        self.out_proj = Linear(width, width, bias=not args.no_biases)
        self.relative: ShawRelative | DisentangledRelative | None = None

    def in_heads(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)  # B T d -> B H T d_h

    def part(self, x: Tensor, rows: slice) -> Tensor:
        """Compute only the columns `rows` of `x (W^Q, W^K, W^V)`."""
        if isinstance(self.qkv_proj, Linear):
            return self.qkv_proj(x, rows)
        return self.qkv_proj(x)[..., rows]  # an adapter, which has no `rows` argument

    def query(self, x: Tensor) -> Tensor:
        return self.in_heads(self.part(x, slice(x.shape[-1])))  # B T d -> B H T d_h

    def key_value(self, y: Tensor) -> tuple[Tensor, Tensor]:
        key, value = self.part(y, slice(y.shape[-1], None)).chunk(2, dim=-1)
        return self.in_heads(key), self.in_heads(value)  # B m d -> 2 of B H m d_h

    def with_terms(
        self, query: Tensor, key: Tensor, terms: Terms, bias: Tensor | Terms | None
    ) -> tuple[Tensor, Tensor, Tensor | Terms | None]:
        """Add the content-dependent parts; return query, key and bias for logits `scale query key^T + bias`."""
        if terms.content_query is not None:
            query, key = query + terms.content_query, key + terms.content_key
        if self.relative is not None:
            by_content = self.relative(query, key, self.scale, terms.distances, self.part)  # B H T m
            bias = by_content if bias is None else by_content + bias
        return query, key, bias

    def attend(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        terms: Terms,
        bias: Tensor | Terms | None,
        padding: Tensor | None,
        causal: bool = False,
    ) -> Tensor:
        """Attend with position terms, before `W^O`.

        Args:
            query: `(B, H, T, d_h)`.
            key, value: `(B, H, m, d_h)`.
            terms, bias: see `AttentionInputs`.
            padding: `(B, m)`, true at padding.
            causal: whether a query sees only keys up to its own position.

        Returns:
            `(B, T, d)`.
        """
        query, key, bias = self.with_terms(query, key, terms, bias)
        if self.relative is not None and self.relative.value is not None:
            out = self.attend_with_values(query, key, value, bias, padding, causal)
        else:
            out = biased_attention(
                query, key, value, bias, key_padding_mask=padding, scale=self.scale, dropout_p=self.dropout,
                training=self.training, causal=causal, backend=self.backend,
            )  # fmt: skip
        return out.transpose(1, 2).flatten(2)  # B H T d_h -> B T d

    def attend_with_values(
        self, query: Tensor, key: Tensor, value: Tensor, bias: Tensor, padding: Tensor | None, causal: bool
    ) -> Tensor:
        """Compute `sum_j w_ij (v_j + a^V[j - i])` (Shaw et al., eq. 3), without a fused kernel."""
        with no_autocast(query.device):
            bias = hide_future(query, key, bias) if causal else bias
            weights = attention_weights(query, key, bias, padding, self.scale)
            weights = dropout(weights, self.dropout, self.training)
            out = weights @ at_least_float32(value) + self.relative.weighted_values(weights)
        return out.to(query.dtype)


class SelfAttention(Attention):
    """Attention of a sequence to itself, or to Linformer's projection of it."""

    bidirectional = True

    def __init__(self, args: Namespace, num_terms: int) -> None:
        super().__init__(args, num_terms)
        if args.relative == "shaw":
            head_dim = args.encoder_embed_dim // self.num_heads
            self.relative = ShawRelative(head_dim, args.relative_max_distance, args.shaw_values, self.bidirectional)
        if args.relative == "deberta":
            self.relative = DisentangledRelative()
        self.projection = LengthProjection(args.max_positions, args.linformer_k) if args.linformer_k else None

    def forward(self, x: Tensor, tokens: Tokens, groups: tuple[AttentionInputs, ...]) -> Tensor:
        """Attend within each sequence of `x`, `(B, T, d)` or without padding `(N, d)`; return the same shape."""
        out = []
        for (group, terms, bias), part in zip(groups, tokens.split(self.project(x))):
            if group.cu_seqlens is not None:
                out.append(self.attend_packed(part, group, terms, bias))
                continue
            query, key, value = self.heads(group.pad(part), terms, group.padding)  # n 3d -> b t 3d -> b H t d_h
            padding = group.padding if self.projection is None else None
            out.append(group.unpad(self.attend(query, key, value, terms, bias, padding)))  # b t d -> n d
        return self.out_proj(out[0] if len(out) == 1 else torch.cat(out))

    def project(self, x: Tensor) -> Tensor:
        """Compute `x (W^Q, W^K, W^V)`. With Linformer return `x`: `heads` projects, because its keys are not tokens."""
        return self.qkv_proj(x) if self.projection is None else x

    def heads(self, x: Tensor, terms: Terms, padding: Tensor | None) -> tuple[Tensor, ...]:
        """Split the output of `project`, `(B, T, ...)`, into queries, keys and values, `(B, H, T or k, d_h)` each."""
        if self.projection is not None:
            return self.query(x), *self.key_value(self.projection(x, padding))  # B T d -> B k d -> B H k d_h
        return tuple(part.transpose(1, 2) for part in self.split_heads(x, terms))

    def split_heads(self, qkv: Tensor, terms: Terms) -> tuple[Tensor, ...]:
        """Return queries and keys, rotated, and values: `(..., 3 d)` to three of `(..., H, d_h)`."""
        qkv = qkv.unflatten(-1, (3 * self.num_heads, -1))  # ... 3H d_h
        if terms.rotation is None:
            return qkv.chunk(3, dim=-2)
        both, value = qkv.split((2 * self.num_heads, self.num_heads), dim=-2)
        if terms.phase is not None:
            both = polar(both, terms.phase)  # ... 2H 2d_h
        return *rotate(both, terms.rotation).to(value.dtype).chunk(2, dim=-2), value

    def attend_packed(self, qkv: Tensor, group: Tokens, terms: Terms, bias: Tensor | Terms | None) -> Tensor:
        """Attend like `attend`, for packed sequences: `(n, 3 d)` to `(n, d)`."""
        column = group.places % group.shape[1]
        rotation = None if terms.rotation is None else terms.rotation[:, column]
        query, key, value = self.split_heads(qkv, terms._replace(rotation=rotation))  # n H d_h
        if terms.content_query is not None:
            query = query + terms.content_query[:, column].transpose(0, 1)  # H t d_h -> n H d_h
            key = key + terms.content_key[:, column].transpose(0, 1)
        if isinstance(bias, Terms) and bias.segments is not None:
            bias = bias._replace(segments=bias.segments.flatten()[group.places])  # b t -> n
        out = packed_attention(
            query, key, value, bias, cu_seqlens=group.cu_seqlens, max_length=group.shape[1],
            key_padding_mask=group.padding, scale=self.scale, dropout_p=self.dropout, training=self.training,
            backend=self.backend,
        )  # fmt: skip
        return out.flatten(1)  # n H d_h -> n d


class LengthProjection(nn.Module):
    """Projection `E x` of `n` positions to `k` rows, from which a layer makes its keys and values (Linformer).

    Each layer has one `E: k x n` for all heads, for keys `(E x) W^K` and values `(E x) W^V` (Wang et al. 2020,
    "key-value sharing"; DIET, eq. 4). A shorter sequence uses the first columns of `E`; padding counts as zero.
    """

    def __init__(self, max_positions: int, num_keys: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(num_keys, max_positions))
        nn.init.normal_(self.weight, std=max_positions**-0.5)  # E x has the scale of x
        fit_positions(self, "weight", 1)

    def forward(self, x: Tensor, padding: Tensor | None) -> Tensor:
        """Compute `E x`, `(B, k, d)`, of `x` `(B, T, d)`; `padding` `(B, T)` is true at padding."""
        if padding is not None:
            x = x.masked_fill(padding.unsqueeze(-1), 0)
        return take(self.weight, x.shape[1]) @ x


class Layer(nn.Module):
    """Transformer layer: attention and feed-forward part, each with a residual; post-norm (BERT) or pre-norm.

    BERT's feed-forward part, and the gated one (GeGLU with GELU; Shazeer 2020; ModernBERT), with dropout on `h`:

        h = act(x W_1),          h = act(x W_1) * (x W_2),          y = h W
    """

    attention = SelfAttention

    def __init__(self, args: Namespace, num_terms: int) -> None:
        super().__init__()
        width, ffn_width, bias = args.encoder_embed_dim, args.encoder_ffn_embed_dim, not args.no_biases
        norm = functools.partial(nn.LayerNorm, width, args.layer_norm_eps, bias=bias)
        self.normalize_before = args.encoder_normalize_before
        self.self_attn = self.attention(args, num_terms)
        self.self_attn_layer_norm = norm()
        self.activation = ACTIVATIONS[args.activation_fn]
        self.dropout = Dropout(args.dropout)
        self.activation_dropout = Dropout(args.activation_dropout)
        self.gated = args.gated
        self.fc1 = Linear(width, 2 * ffn_width if self.gated else ffn_width, bias=bias)  # W_1 and W_2
        self.fc2 = Linear(ffn_width, width, bias=bias)
        self.final_layer_norm = norm()

    def feed_forward(self, x: Tensor) -> Tensor:
        x = self.fc1(x)
        if self.gated:
            x, gate = x.chunk(2, dim=-1)
            x = self.activation(x) * gate
        else:
            x = self.activation(x)
        return self.fc2(self.activation_dropout(x))

    def residual(self, part: Callable[[Tensor], Tensor], x: Tensor, norm: nn.Module) -> Tensor:
        """Compute `x + part(norm(x))` (pre-norm) or `norm(x + part(x))` (post-norm), with dropout on the part."""
        if self.normalize_before:
            return x + self.dropout(part(norm(x)))
        return norm(x + self.dropout(part(x)))

    def forward(self, x: Tensor, *attention: object) -> Tensor:
        """Compute the layer for `x` `(B, T, d)` or `(N, d)`; `attention` goes to `SelfAttention.forward` after `x`."""
        x = self.residual(lambda x: self.self_attn(x, *attention), x, self.self_attn_layer_norm)
        return self.residual(self.feed_forward, x, self.final_layer_norm)


@functools.cache
def compiled(layer: type[Layer]) -> Callable[..., Tensor]:
    """Return the compiled `forward` of a class of layers: a graph per kind of layer, for all lengths.

    Call it with the layer as first argument. No module is wrapped, so parameters keep their names.
    """
    return torch.compile(layer.forward, dynamic=True)
