r"""What positions at the input do in the attention of each layer, and which heads of two layers do the same.

    p^_i   = E[x_i] - mean over i >= 1 of E[x_i]                    x_i what W^Q sees in the layer, E over text
    T_ij   = ((p^_i W^Q + q~) . (p^_j W^K)) / sqrt(d_h)             per head, q~ = mean of x W^Q + b^Q

What depends on `i` alone changes no softmax: the rows of `T` are centred. `[CLS]` is always at position 0, where its
word would be taken for a position: `p^_0` is 0, and in the first layer what its two inputs differ by.
"""

from typing import NamedTuple

import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from tupe.encoder.layer import Layer
from tupe.models.tupe import TupeLanguageModelEncoder

TOKENS = 8192  # of a batch
_ROUNDS = 5  # how often each layer has its heads put in order


class Positions(NamedTuple):
    """Of each layer's input what is the positions', `p^` `(L, n, d)`, and its mean `(L, d)`."""

    hidden: Tensor
    mean: Tensor


@torch.no_grad()
def positions_of(old: TupeLanguageModelEncoder, sequences: Tensor) -> Positions:
    """Measure `p^` in a model with positions at its input, on masked `sequences` `(B, n)` without padding."""
    inner, sums = old.sentence_encoder, 0
    for batch in sequences.split(max(1, TOKENS // sequences.shape[1])):
        states = inner(batch, num_tokens=batch.numel(), return_all_hiddens=True)[1]
        seen = [what_attention_sees(layer, x) for layer, x in zip(inner.layers, states)]
        sums = sums + torch.stack([x.double().sum(0) for x in seen])
    means = (sums / len(sequences)).float()
    mean = means[:, 1:].mean(1)
    hidden = means - mean.unsqueeze(1)
    hidden[:, 0] = 0
    hidden[0, 0] = _cls_input(old, at_its_place=True) - _cls_input(old, at_its_place=False)
    return Positions(hidden, mean)


@torch.no_grad()
def positions_from_weights(old: TupeLanguageModelEncoder) -> Positions:
    r"""Guess `p^` without text: `p^_i = gamma (p_i - p~) / sigma`, `sigma^2` the mean variance of words and positions.

    All layers are taken to see what the first does.
    """
    inner = old.sentence_encoder
    table, words, norm = inner.input_positions.weight, inner.embed_tokens.weight, inner.layernorm_embedding
    hidden = table - table[1:].mean(0)
    if hasattr(norm, "weight"):
        sigma = (words.var(1).mean() + table.var(1).mean()).sqrt()
        hidden = norm.weight * hidden / sigma
    if hasattr(inner.embedding_projection, "weight"):
        hidden = hidden @ inner.embedding_projection.weight.t()
    layers = len(inner.layers)
    return Positions(hidden.expand(layers, -1, -1), hidden.new_zeros(layers, hidden.shape[1]))


def what_attention_sees(layer: Layer, x: Tensor) -> Tensor:
    """Return the input of the projections of a layer whose input is `x`."""
    return layer.self_attn_layer_norm(x) if layer.normalize_before else x


def words_of(layer: Layer, x: Tensor) -> tuple[Tensor, Tensor]:
    """Return the words' queries `(B, H, n, d_h)` in a layer whose input is `x`, and their mean logits `(H, n, n)`."""
    attention, seen = layer.self_attn, what_attention_sees(layer, x)
    query, (key, _) = attention.query(seen), attention.key_value(seen)
    return query, torch.einsum("bhid,bhjd->hij", query, key) * attention.scale / len(x)


def _cls_input(old: TupeLanguageModelEncoder, at_its_place: bool) -> Tensor:
    """Return what the first layer's attention sees of `[CLS]`, at position 0 or at the mean one."""
    inner = old.sentence_encoder
    table = inner.input_positions.weight
    x = inner.embed_tokens.weight[old.dictionary.bos()] + (table[0] if at_its_place else table[1:].mean(0))
    if inner.input_segments is not None:
        x = x + inner.input_segments.weight[0]
    return what_attention_sees(inner.layers[0], inner.embedding_projection(inner.layernorm_embedding(x)))


@torch.no_grad()
def logits_of(old: TupeLanguageModelEncoder, positions: Positions) -> Tensor:
    """Compute `T` of every layer and head, its rows centred, `(L, H, n, n)`."""
    logits = []
    for layer, hidden, mean in zip(old.sentence_encoder.layers, *positions):
        attention, width = layer.self_attn, len(mean)
        weight, bias = attention.qkv_proj.weight, attention.qkv_proj.bias
        query = (hidden + mean) @ weight[:width].t() + bias[:width]  # p^_i W^Q + q~
        key = hidden @ weight[width : 2 * width].t()  # p^_j W^K
        query, key = in_heads(query, attention.num_heads), in_heads(key, attention.num_heads)
        logits.append(centred(attention.scale * query @ key.transpose(1, 2)))
    return torch.stack(logits)


def in_heads(x: Tensor, heads: int) -> Tensor:
    """Turn `(n, H d_h)` into `(H, n, d_h)`."""
    return x.unflatten(-1, (heads, -1)).transpose(0, 1)


def centred(logits: Tensor, first: int = 0) -> Tensor:
    """Subtract from `logits` the mean of each row, over its columns from `first` on."""
    return logits - logits[..., first:].mean(-1, keepdim=True)


def agreeing_heads(logits: Tensor) -> Tensor:
    """Order the heads of each layer by what they do, since heads of different layers have nothing in common.

    Each layer in turn has its heads assigned to the mean of the other layers' heads, by the squared distance of `T`,
    `logits` `(L, H, n, n)`. The result says which head takes each place, `(L, H)`.
    """
    layers, heads = logits.shape[:2]
    flat = logits.flatten(2)
    orders = torch.arange(heads).repeat(layers, 1)
    for turn in range(_ROUNDS):
        for layer in range(layers):
            others = [n for n in range(layers) if n != layer and (turn or n < layer)]
            if others:
                mean = torch.stack([flat[n][orders[n]] for n in others]).mean(0)
                orders[layer] = closest(mean, flat[layer])
    return orders


def closest(places: Tensor, values: Tensor) -> Tensor:
    """Assign one of `values` `(H, m)` to each of `places` `(H, m)`, with the least sum of squared distances."""
    cost = torch.cdist(places.double(), values.double()).square()
    return torch.from_numpy(linear_sum_assignment(cost.numpy())[1])
