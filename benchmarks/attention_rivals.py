"""The rivals of `attention.py`: how each computes attention with a bias, on what, and what it cannot do."""

from argparse import Namespace
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from tupe.attention import biased_attention, packed_attention
from tupe.position import StructuredBias

Attend = Callable[..., Tensor]
DESCRIPTIONS = {
    "flash": "SDPA, FlashAttention, no bias",
    "ours": "ours, dense bias",
    "structured": "ours, structured bias",
    "packed": "ours, dense bias, tokens side by side",
    "varlen": "PyTorch's varlen_attn, no bias, tokens side by side",
    "factors": "PyTorch's, factors as wider heads",
    "sdpa": "SDPA, memory-efficient, bias expanded over the batch",
    "flex": "FlexAttention, captured bias",
    "cudnn": "TransformerEngine, cuDNN's bias gradient",
    "eager": "products and softmax in PyTorch",
    "eager_compiled": "the same under torch.compile",
}
SIDE_BY_SIDE = ("packed", "varlen")


def eager(
    query: Tensor, key: Tensor, value: Tensor, bias: Tensor, mask: Tensor | None, scale: float, dropout: float
) -> Tensor:
    logits = query * scale @ key.transpose(-2, -1) + bias
    logits = logits if mask is None else logits.masked_fill(mask, -torch.inf)
    return F.dropout(logits.softmax(-1), dropout) @ value


def flex(query: Tensor, key: Tensor, value: Tensor, bias: Tensor, _: None, scale: float, dropout: float) -> Tensor:
    from torch.nn.attention.flex_attention import flex_attention

    def add_bias(score: Tensor, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return score + bias[h, i, j]

    return flex_attention(query, key, value, score_mod=add_bias, scale=scale)


def lengths_of(batch: int, length: int, args: Namespace) -> Tensor:
    """Return the lengths of the sequences, falling, `(B,)`."""
    return torch.linspace(length, 1 if args.ragged else length, batch).round().long().to(args.device)


def attention_of(rival: str, batch: int, length: int, args: Namespace) -> Attend:
    """Return the rival's `attend(query, key, value, *bias)`."""
    scale, dropout = (2 * args.width) ** -0.5, args.dropout
    lengths = lengths_of(batch, length, args)
    side_by_side = {"cu_seqlens": F.pad(lengths.cumsum(0), (1, 0)).int(), "max_length": length}
    mask = torch.arange(length, device=args.device) >= lengths[:, None] if args.ragged else None
    keys = None if mask is None else mask[:, None, None]
    common: dict[str, Any] = {"scale": scale, "dropout_p": dropout, "training": True}
    options = {**common, "key_padding_mask": mask}
    compiled = {"eager_compiled": eager, "flex": flex}
    if rival in compiled:
        function = torch.compile(compiled[rival], dynamic=False)
        return lambda q, k, v, bias: function(q, k, v, bias, keys, scale, dropout)

    def sdpa(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None = None) -> Tensor:
        if bias is not None:
            bias = bias.expand(len(q), -1, -1, -1)
            bias = bias if keys is None else bias.masked_fill(keys, -torch.inf)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=bias, dropout_p=dropout, scale=scale)

    if rival == "cudnn":
        from transformer_engine.pytorch import DotProductAttention

        attention = DotProductAttention(
            args.heads, args.width, attention_dropout=dropout, qkv_format="bshd", attn_mask_type="no_mask",
            softmax_scale=scale,
        )  # fmt: skip

        def cudnn(q: Tensor, k: Tensor, v: Tensor, bias: Tensor) -> Tensor:
            q, k, v = (x.transpose(1, 2) for x in (q, k, v))
            out = attention(q, k, v, core_attention_bias_type="post_scale_bias", core_attention_bias=bias[None])
            return out.unflatten(-1, (args.heads, args.width)).transpose(1, 2)

        return cudnn

    def varlen(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        from torch.nn.attention.varlen import varlen_attn

        starts = side_by_side["cu_seqlens"]
        return varlen_attn(q, k, v, starts, starts, length, length, scale=scale)

    return {
        "varlen": varlen,
        "packed": lambda q, k, v, bias: packed_attention(q, k, v, bias, **side_by_side, **common),
        "flash": sdpa,
        "sdpa": sdpa,
        "eager": lambda q, k, v, bias: eager(q, k, v, bias, keys, scale, dropout),
        "ours": lambda q, k, v, bias: biased_attention(q, k, v, bias, backend="triton", **options),
        "factors": lambda q, k, v, a, b, theta: biased_attention(
            q, k, v, StructuredBias(a, b, None, theta), backend="factors", **options
        ),
        "structured": lambda q, k, v, *parts: biased_attention(
            q, k, v, StructuredBias(*parts), backend="triton", **options
        ),
    }[rival]


def turn_of(name: str, args: Namespace) -> AbstractContextManager[None]:
    """Choose SDPA's kernel for a rival's turn: done in each step, the choice takes as long as a short attention."""
    kernels = {"flash": SDPBackend.FLASH_ATTENTION, "sdpa": SDPBackend.EFFICIENT_ATTENTION}
    if name not in kernels:
        return nullcontext()
    return sdpa_kernel(kernels[name] if args.on_gpu else [SDPBackend.FLASH_ATTENTION, SDPBackend.MATH])


def unsuited(rival: str, mode: str, args: Namespace) -> str | None:
    if not args.on_gpu and rival in ("structured", "flex", "cudnn", "packed", "varlen"):
        return "needs a GPU"
    if mode == "backward" and args.graph:
        return "not by itself in a graph"
    if rival in ("flex", "varlen") and args.dropout:
        return "has no dropout"
    if rival in ("flex", "cudnn") and args.ragged:
        return "has no padding here"
    return None


def tokens_of(rival: str, batch: int, length: int, args: Namespace) -> tuple[int, ...]:
    """Return the shape of the tokens: `(B, T)`, or `(N,)` for a rival that takes them side by side."""
    return (int(lengths_of(batch, length, args).sum()),) if rival in SIDE_BY_SIDE else (batch, length)


def inputs(rival: str, batch: int, length: int, args: Namespace) -> tuple[list[Tensor], Tensor]:
    """Return query, key, value and bias, as the layers of a model have them, and a gradient of the output."""

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, device=args.device, dtype=args.torch_dtype)

    tokens = tokens_of(rival, batch, length, args)
    product, d_out = normal(*tokens, 3, args.heads, args.width).movedim(-3, 0), normal(*tokens, args.heads, args.width)
    if rival not in SIDE_BY_SIDE:
        product, d_out = product.transpose(-3, -2), d_out.transpose(-3, -2)
    leaves = [tensor.detach().requires_grad_() for tensor in product]
    factors = [(args.heads, length, args.width), (args.heads, length, args.width)]
    theta = (2, args.heads)
    shapes = {
        "flash": [],
        "varlen": [],
        "factors": [*factors, theta],
        "structured": [*factors, (args.heads, 2 * length - 1), theta],
    }
    leaves += [normal(*shape).requires_grad_() for shape in shapes.get(rival, [(args.heads, length, length)])]
    return leaves, d_out
