r"""The logits of attention on a text: their parts in the first layer, and their rank in every layer.

In the first layer of BERT-A the token embeddings `w` and the positions `p` have been added, so a logit is the sum of
four correlations (TUPE, eq. 6 and figure 2):

    (w_i W^Q)(w_j W^K)^T + (w_i W^Q)(p_j W^K)^T + (p_i W^Q)(w_j W^K)^T + (p_i W^Q)(p_j W^K)^T

A layer norm before the projections is linear once its mean and deviation are known, so its output splits into content
and positions, and so does the projection of narrow embeddings. Constants (biases, segments) count as content.
BERT-A^d has the four as terms; other systems have the content term, and terms of the positions.
"""

import contextlib

import torch
from torch import Tensor, nn
from torch.linalg import matrix_rank

from tupe.analysis.figure import Matrices, color_of, folded, new_figure
from tupe.encoder.layer import AttentionInputs, SelfAttention
from tupe.models.tupe import TupeLanguageModelEncoder as Encoder
from tupe.position import Terms


@torch.no_grad()
def layer_logits(encoder: Encoder, tokens: Tensor) -> list[Tensor]:
    """Return the logits of each layer, `(B, H, n, m)` in float64, for tokens `(B, n)` without padding.

    The encoder is converted to float64.
    """
    found = []
    for attention, x, (_, terms, bias) in _attention_inputs(encoder, tokens):
        query, key, _ = _heads(attention, x, terms)
        query, key, bias = attention.with_terms(query, key, terms, bias)
        logits = attention.scale * query @ key.transpose(-2, -1)
        found.append(logits if bias is None else logits + bias)
    return found


def _attention_inputs(encoder: Encoder, tokens: Tensor) -> list[tuple[SelfAttention, Tensor, AttentionInputs]]:
    """Return the attention of each layer with its arguments."""
    found: list[tuple[SelfAttention, Tensor, AttentionInputs]] = []
    stack = encoder.double().sentence_encoder
    stack.attention_backend = "auto"  # on a CPU a dense bias, whatever the model was trained with
    with contextlib.ExitStack() as hooks:
        for attention in (layer.self_attn for layer in stack.layers):
            hook = attention.register_forward_pre_hook(lambda module, x: found.append((module, x[0], x[2][0])))
            hooks.enter_context(hook)
        stack(tokens, num_tokens=tokens.numel())
    return found


def _heads(attention: SelfAttention, x: Tensor, terms: Terms) -> tuple[Tensor, ...]:
    """Return queries, keys and values of `x` `(B, n, d)`, without padding."""
    return attention.heads(attention.project(x), terms, None)


@torch.no_grad()
def first_layer_correlations(encoder: Encoder, tokens: Tensor) -> dict[str, Tensor]:
    """Return the parts of the first layer's logits, each `(H, n, n)` in float64, as means over the sequences.

    Tokens are `(B, n)`, without padding. The encoder must have no `attention_window` and no vectors of distances, which
    are multiplied with the content in each layer. It is converted to float64.
    """
    attention, x, (_, terms, bias) = _attention_inputs(encoder, tokens)[0]
    stack = encoder.sentence_encoder
    positions = None
    if stack.input_positions is not None:
        words = stack.embed_tokens(tokens)
        positions = stack.input_positions(tokens.shape[1]).expand_as(words)
        if stack.input_segments is not None:
            words = words + stack.input_segments(stack.segments(tokens))
        first = stack.layers[0]
        before = [first.self_attn_layer_norm] if first.normalize_before else []
        for module in (stack.layernorm_embedding, stack.embedding_projection, *before):
            words, positions = _shares(module, words, positions)
        x = words + positions

    query, key, _ = _heads(attention, x, terms)
    position_query, position_key = terms.content_query, terms.content_key
    if positions is not None:
        zero = _heads(attention, torch.zeros_like(x), terms)
        position_query, position_key = (
            of - constant for of, constant in zip(_heads(attention, positions, terms)[:2], zero)
        )
        query, key = query - position_query, key - position_key
    pairs = {"word to word": (query, key)}
    if position_query is not None:
        pairs["word to position"] = (query, position_key)
        pairs["position to word"] = (position_query, key)
        pairs["position to position"] = (position_query, position_key)
    found = {name: attention.scale * q @ k.transpose(-2, -1) for name, (q, k) in pairs.items()}
    if bias is not None:
        segments = " and segments" * (stack.segment_attention is not None)
        found[f"position to position{segments}, a term of its own"] = bias
    return {name: value.mean(0) if value.ndim == 4 else value.detach() for name, value in found.items()}


def _shares(module: nn.Module, words: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
    """Split `module(words + positions)` in two, for a layer norm or a linear layer; other modules change nothing."""
    if isinstance(module, nn.Linear):
        return module(words), positions @ module.weight.t()
    if not isinstance(module, nn.LayerNorm):
        return words, positions
    deviation = torch.sqrt((words + positions).var(-1, unbiased=False, keepdim=True) + module.eps)
    words, positions = ((part - part.mean(-1, keepdim=True)) / deviation * module.weight for part in (words, positions))
    return words if module.bias is None else words + module.bias, positions


def correlation_maps(encoder: Encoder, tokens: Tensor) -> Matrices:
    """Return each of `first_layer_correlations` as the mean of the heads (TUPE, figure 2)."""
    found = first_layer_correlations(encoder, tokens)
    values = torch.stack([value.mean(0) for value in found.values()])
    title = f"Correlations in the first layer of {encoder.shown_as}, {len(tokens)} sequences"
    label = "part of the logit, mean of the heads"
    return Matrices(values, list(found), title, label, reset=encoder.args.reset != "none")


@torch.no_grad()
def logit_ranks(encoder: Encoder, tokens: Tensor) -> tuple[Tensor, Tensor | None]:
    """Compute ranks of the logits of every layer and head, and of the position term (DIET, figures 2 and 8).

    With positions at the input, a head's logits are a product of an `n x d_h` and a `d_h x n` matrix, so their rank is
    at most `d_h`. A low-rank position term adds up to `d_p` (DIET, theorem 1).

    Tokens are `(B, n)`, without padding. Singular values above 1e-6 of the largest count. The encoder must have no
    `attention_window`. It is converted to float64.

    Returns:
        Ranks of the logits, `(L, H)`, as means over the sequences; and of the position term, `(H,)` where layers share
        it, `None` without one.
    """
    logits = torch.stack(layer_logits(encoder, tokens))  # L B H n m
    assert logits.isfinite().all(), "the rank of infinite logits is not defined"  # LAPACK would return one
    ranks = matrix_rank(logits, rtol=1e-6).double().mean(1)
    bias = encoder.sentence_encoder.position_bias(tokens.shape[1]).bias
    return ranks, None if bias is None else matrix_rank(bias, rtol=1e-6)


def plot_ranks(ranks: dict[str, tuple[Tensor, Tensor | None]], length: int):
    """Draw the mean rank of the logits over the layers, with the range of the heads, for one model or several.

    `ranks` are results of `logit_ranks` by label; `length` is `n`, the highest possible rank.
    """
    figure = new_figure(6, 4)
    ax = figure.subplots()
    for number, (label, (logits, term)) in enumerate(ranks.items()):
        layers = range(1, len(logits) + 1)
        alone = "no term" if term is None else f"term alone {term.double().mean():.0f}"
        low, high = logits.min(1).values, logits.max(1).values
        ax.plot(layers, logits.mean(1), marker="o", color=color_of(number), label=folded(f"{label} ({alone})"))
        ax.fill_between(layers, low, high, color=color_of(number), alpha=0.2)
    ax.axhline(length, color="0.4", linewidth=0.8, linestyle=":")
    ax.set(xlabel="layer", ylabel="rank of the logits\nline: mean of the heads, band: all", ylim=(0, 1.05 * length))
    ax.xaxis.get_major_locator().set_params(integer=True)
    ax.legend()
    return figure
