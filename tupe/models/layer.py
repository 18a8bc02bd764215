"""One Transformer encoder layer, batch first, whose attention takes the position terms."""

from __future__ import annotations

import math
from argparse import Namespace
from typing import Optional

import torch.nn.functional as F
from fairseq import utils
from torch import Tensor, nn

from tupe.attention import biased_attention
from tupe.errors import UserError
from tupe.position import PositionTerms


class SelfAttention(nn.Module):
    """`softmax(((x W^Q + query)(x W^K + key)^T) / sqrt(num_terms d_h) + bias) x W^V W^O`, in heads.

    `query`, `key` and `bias` are the position terms; one product makes `x W^Q, x W^K, x W^V`.

    Raises:
        UserError: if the heads do not divide the width.
    """

    def __init__(self, embed_dim: int, num_heads: int, num_terms: int, dropout: float, backend: str) -> None:
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

    def forward(self, x: Tensor, position: PositionTerms, key_padding_mask: Optional[Tensor]) -> Tensor:
        """`x` `(B, T, d)`, `key_padding_mask` `(B, T)` true at padding; returns `(B, T, d)`."""
        qkv = self.qkv_proj(x).unflatten(-1, (3, self.num_heads, -1))  # (B, T, 3, H, d_h)
        query, key, value = qkv.permute(2, 0, 3, 1, 4)  # (B, H, T, d_h) each
        if position.query is not None:
            query, key = query + position.query, key + position.key
        out = biased_attention(
            query,
            key,
            value,
            position.bias,
            key_padding_mask=key_padding_mask,
            scale=self.scale,
            dropout_p=self.dropout,
            training=self.training,
            backend=self.backend,
        )
        return self.out_proj(out.transpose(1, 2).flatten(2))


class TupeEncoderLayer(nn.Module):
    """Attention and feed-forward part, each with its residual; post-norm (BERT) or pre-norm."""

    def __init__(self, args: Namespace, num_terms: int) -> None:
        super().__init__()
        width = args.encoder_embed_dim
        self.normalize_before = args.encoder_normalize_before
        self.self_attn = SelfAttention(
            width, args.encoder_attention_heads, num_terms, args.attention_dropout, args.attention_backend
        )
        self.self_attn_layer_norm = nn.LayerNorm(width)
        # PyTorch's gelu is the exact form, in float32 inside; fairseq's makes a float32 copy of its input.
        self.activation = F.gelu if args.activation_fn == "gelu" else utils.get_activation_fn(args.activation_fn)
        self.dropout = nn.Dropout(args.dropout)
        self.activation_dropout = nn.Dropout(args.activation_dropout)
        self.fc1 = nn.Linear(width, args.encoder_ffn_embed_dim)
        self.fc2 = nn.Linear(args.encoder_ffn_embed_dim, width)
        self.final_layer_norm = nn.LayerNorm(width)

    def feed_forward(self, x: Tensor) -> Tensor:
        return self.fc2(self.activation_dropout(self.activation(self.fc1(x))))

    def forward(self, x: Tensor, position: PositionTerms, key_padding_mask: Optional[Tensor]) -> Tensor:
        """`x` `(B, T, d)` to `(B, T, d)`."""
        if self.normalize_before:
            x = x + self.dropout(self.self_attn(self.self_attn_layer_norm(x), position, key_padding_mask))
            return x + self.dropout(self.feed_forward(self.final_layer_norm(x)))
        x = self.self_attn_layer_norm(x + self.dropout(self.self_attn(x, position, key_padding_mask)))
        return self.final_layer_norm(x + self.dropout(self.feed_forward(x)))
