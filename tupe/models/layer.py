"""One Transformer encoder layer, batch first, whose attention takes the position terms."""

from __future__ import annotations

import functools
import math
from argparse import Namespace
from typing import Callable, Optional, Union

import torch
import torch.nn.functional as F
from fairseq import utils
from torch import Tensor, nn

from tupe.attention import biased_attention
from tupe.dropout import Dropout
from tupe.errors import UserError
from tupe.linear import is_plain, linear, project
from tupe.models.linformer import LengthProjection
from tupe.models.shaw import attention_with_relative_values
from tupe.position import PositionTerms, ShawRelative, StructuredBias


class SelfAttention(nn.Module):
    """`softmax(((x W^Q + query)(x W^K + key)^T) / sqrt(num_terms d_h) + bias) x W^V W^O`, in heads.

    `query`, `key` and `bias` are the position terms; one product makes `x W^Q, x W^K, x W^V`.

    Args:
        embed_dim: `d`.
        num_heads: `H`.
        num_terms: number of products that the logit sums.
        dropout: of the attention weights.
        backend: of `tupe.attention.biased_attention`.
        relative: Shaw's relative positions, whose term joins `bias`.
        projection: Linformer's; keys and values are then those of `E x` instead of `x`.

    Raises:
        UserError: if the heads do not divide the width.
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        num_terms: int,
        dropout: float,
        backend: str,
        *,
        relative: Optional[ShawRelative] = None,
        projection: Optional[LengthProjection] = None,
    ) -> None:
        super().__init__()
        if embed_dim % num_heads:
            raise UserError(
                f"{num_heads} attention heads do not divide the width {embed_dim}: change encoder_attention_heads "
                "or encoder_embed_dim"
            )
        self.num_heads = num_heads
        self.scale = 1 / math.sqrt(num_terms * (embed_dim // num_heads))
        self.dropout = dropout
        self.backend = backend
        self.qkv_proj = nn.Linear(embed_dim, 3 * embed_dim)
        self.out_proj = nn.Linear(embed_dim, embed_dim)
        self.relative = relative
        self.projection = projection

    def heads(self, x: Tensor, key_padding_mask: Optional[Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        """Queries `(B, H, T, d_h)`, keys and values `(B, H, T, d_h)`, or `(B, H, k, d_h)` with Linformer."""
        if self.projection is None:
            query, key, value = project(self.qkv_proj, x).chunk(3, dim=-1)
        else:
            projected = self.projection(x, key_padding_mask)  # (B, k, d)
            width = x.shape[-1]
            if is_plain(self.qkv_proj, nn.Linear):  # each row of the weight only where it is needed
                weight, bias = self.qkv_proj.weight, self.qkv_proj.bias
                query = linear(x, weight[:width], bias[:width])
                key, value = linear(projected, weight[width:], bias[width:]).chunk(2, dim=-1)
            else:
                query = self.qkv_proj(x)[..., :width]
                key, value = self.qkv_proj(projected)[..., width:].chunk(2, dim=-1)
        query, key, value = (t.unflatten(-1, (self.num_heads, -1)).transpose(1, 2) for t in (query, key, value))
        return query, key, value

    def inputs(
        self, x: Tensor, position: PositionTerms, key_padding_mask: Optional[Tensor]
    ) -> tuple[Tensor, Tensor, Tensor, Union[Tensor, StructuredBias, None]]:
        """Query, key, value and bias, of which the logits are `scale query key^T + bias`."""
        query, key, value = self.heads(x, key_padding_mask)
        if position.query is not None:
            query, key = query + position.query, key + position.key
        bias = position.bias
        if self.relative is not None:
            relative = self.relative(query, self.scale)  # (B, H, T, T)
            bias = relative if bias is None else relative + bias
        return query, key, value, bias

    def forward(self, x: Tensor, position: PositionTerms, key_padding_mask: Optional[Tensor]) -> Tensor:
        """`x` `(B, T, d)`, `key_padding_mask` `(B, T)` true at padding; returns `(B, T, d)`."""
        query, key, value, bias = self.inputs(x, position, key_padding_mask)
        options = {
            "key_padding_mask": key_padding_mask if self.projection is None else None,
            "scale": self.scale,
            "dropout_p": self.dropout,
            "training": self.training,
        }
        if self.relative is not None and self.relative.value is not None:
            out = attention_with_relative_values(query, key, value, bias, self.relative, **options)
        else:
            out = biased_attention(query, key, value, bias, **options, backend=self.backend)
        return project(self.out_proj, out.transpose(1, 2).flatten(2))


def build_self_attention(args: Namespace, num_terms: int) -> SelfAttention:
    """The attention of one layer, with what the configuration puts inside the layer."""
    width, heads = args.encoder_embed_dim, args.encoder_attention_heads
    relative = projection = None
    if args.relative == "shaw":
        relative = ShawRelative(width // heads, args.relative_max_distance, args.shaw_values)
    if args.linformer_k:
        projection = LengthProjection(args.max_positions, args.linformer_k)
    dropout, backend = args.attention_dropout, args.attention_backend
    return SelfAttention(width, heads, num_terms, dropout, backend, relative=relative, projection=projection)


class TupeEncoderLayer(nn.Module):
    """Attention and feed-forward part, each with its residual; post-norm (BERT) or pre-norm."""

    def __init__(self, args: Namespace, num_terms: int) -> None:
        super().__init__()
        width = args.encoder_embed_dim
        self.normalize_before = args.encoder_normalize_before
        self.self_attn = build_self_attention(args, num_terms)
        self.self_attn_layer_norm = nn.LayerNorm(width)
        # PyTorch's gelu is the exact form, in float32 inside; fairseq's makes a float32 copy of its input.
        self.activation = F.gelu if args.activation_fn == "gelu" else utils.get_activation_fn(args.activation_fn)
        self.dropout = Dropout(args.dropout)
        self.activation_dropout = Dropout(args.activation_dropout)
        self.fc1 = nn.Linear(width, args.encoder_ffn_embed_dim)
        self.fc2 = nn.Linear(args.encoder_ffn_embed_dim, width)
        self.final_layer_norm = nn.LayerNorm(width)

    def feed_forward(self, x: Tensor) -> Tensor:
        return project(self.fc2, self.activation_dropout(self.activation(project(self.fc1, x))))

    def forward(self, x: Tensor, position: PositionTerms, key_padding_mask: Optional[Tensor]) -> Tensor:
        """`x` `(B, T, d)` to `(B, T, d)`."""
        if self.normalize_before:
            x = x + self.dropout(self.self_attn(self.self_attn_layer_norm(x), position, key_padding_mask))
            return x + self.dropout(self.feed_forward(self.final_layer_norm(x)))
        x = self.self_attn_layer_norm(x + self.dropout(self.self_attn(x, position, key_padding_mask)))
        return self.final_layer_norm(x + self.dropout(self.feed_forward(x)))


@functools.cache
def compiled_layer() -> Callable[..., Tensor]:
    """`TupeEncoderLayer.forward` by `torch.compile`: one graph for all layers and lengths, in place of `layer(...)`.

    No module is wrapped, so parameters keep their names. The call raises `UserError` where the compiler does not work.
    """
    forward = torch.compile(TupeEncoderLayer.forward, dynamic=True)

    def call(*arguments: object) -> Tensor:
        try:
            return forward(*arguments)
        except Exception as error:
            if not type(error).__module__.startswith(("torch._dynamo", "torch._inductor")):
                raise
            reason = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
            raise UserError(
                f"torch.compile does not work here ({reason[:300]}): install what it needs (a C++ compiler, and on a "
                "GPU Triton), or leave --compile (model.compile) out"
            ) from error

    return call
