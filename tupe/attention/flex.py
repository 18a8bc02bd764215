"""Attention by PyTorch's FlexAttention: `score_mod` adds values by distance, and factors become wider heads."""

import functools

import torch
from torch import Tensor

from tupe.position.terms import Terms


def flex(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bias: Tensor | Terms | None,
    key_padding_mask: Tensor | None,
    scale: float,
    dropout_p: float,
    causal: bool = False,
    cu_seqlens: Tensor | None = None,
    max_length: int = 0,
) -> Tensor:
    """Like `reference`, or `packed_attention` if `cu_seqlens` is set; memory on a GPU is linear in the lengths.

    The forward pass equals that of `reference` on a CPU. The backward pass needs a GPU and has never been run, so its
    gradients and its speed are unmeasured. Dropout raises an error, because FlexAttention does not support it.
    """
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention  # takes a second

    if dropout_p > 0:
        raise ValueError("attention_backend=flex cannot drop attention weights. Set attention_dropout=0.")
    row, column = (torch.arange(x.shape[2], device=query.device) for x in (query, key))  # indices in the sequence
    size = (len(query), query.shape[1], len(row), len(column))
    sequence = blocks = None
    if cu_seqlens is not None:
        sequence = torch.searchsorted(cu_seqlens, column, right=True) - 1
        blocks = create_block_mask(
            lambda b, h, i, j: sequence[i] == sequence[j], 1, 1, *size[2:], query.device, _compile=query.is_cuda
        )
        row = column = column - cu_seqlens[sequence]
        size = (len(cu_seqlens) - 1, query.shape[1], max_length, max_length)
    parts = bias.expand(query.shape[1]) if isinstance(bias, Terms) else Terms()
    if parts.query is not None and parts.key is not None:  # one product for content and positions
        pos_q, pos_k = parts.query[:, row] / scale, parts.key[:, column]
        if parts.theta is not None:
            pos_q, pos_k = pos_q * (row > 0)[:, None], pos_k * (column > 0)[:, None]
        query = torch.cat((query, pos_q.to(query.dtype).expand(len(query), -1, -1, -1)), -1)
        key = torch.cat((key, pos_k.to(key.dtype).expand(len(key), -1, -1, -1)), -1)
    if isinstance(bias, Tensor):
        bias = bias.expand(size)

    def score_mod(score: Tensor, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        if isinstance(bias, Tensor):
            score = score + bias[b if sequence is None else sequence[i], h, row[i], column[j]]
        added = 0.0 if parts.relative is None else parts.relative[h, column[j] - row[i] + size[2] - 1]
        if parts.theta is not None:  # row 0 lacks theta_1, which changes no weight
            added = torch.where(row[i] > 0, torch.where(column[j] > 0, added, parts.theta[1, h]), 0.0)
        if parts.segment is not None:
            added = added + parts.segment[h, parts.segments[b, i].long(), parts.segments[b, j].long()]
        if key_padding_mask is not None:
            score = torch.where(key_padding_mask[b, j], -torch.inf, score)
        if causal:
            score = torch.where(column[j] > row[i] + size[3] - size[2], -torch.inf, score)
        return score + added

    attend = compiled(flex_attention) if query.is_cuda else flex_attention
    return attend(query, key, value, score_mod=score_mod, block_mask=blocks, scale=scale)


compiled = functools.cache(torch.compile)  # FlexAttention is one kernel only if compiled
