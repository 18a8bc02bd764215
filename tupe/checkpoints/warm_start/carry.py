"""Copy parameters between systems, start new terms at zero, scale queries, order heads."""

import torch
from torch import Tensor

from tupe.models.tupe import TupeLanguageModelEncoder
from tupe.position import UntiedAbsolute

#: Relative term -> the parameters that are set to zero to make the term zero but let it learn.
ZERO = {
    "bucketed": ("weight",),
    "clipped": ("weight",),
    "unbinned": ("weight",),
    "parametric": ("key.weight",),
    "shaw": ("key", "value"),
    "fire": ("out_weight", "out_bias"),
}


def head_axes(encoder: TupeLanguageModelEncoder) -> dict[str, int]:
    """Map each parameter with a slice per head to the axis along which the heads of all layers follow each other."""
    terms = encoder.named_modules()
    return {f"{path}.{name}": axis for path, term in terms for name, axis in getattr(term, "head_axes", {}).items()}


@torch.no_grad()
def copy(old: TupeLanguageModelEncoder, new: TupeLanguageModelEncoder) -> list[str]:
    """Copy every parameter of `old` that `new` has too, and return the names of those that only `new` has.

    Where the layers or heads of `old` share a term and those of `new` do not, each gets a copy.
    """
    have, alone, axes = old.state_dict(), [], head_axes(new)
    if old.args.relative != new.args.relative:  # parameters of another term may have the same names
        have = {name: tensor for name, tensor in have.items() if ".relative." not in name}
    if new.args.sharing not in (old.args.sharing, "none"):  # several terms do not become one
        have = {name: tensor for name, tensor in have.items() if name not in axes}
    for name, tensor in new.state_dict().items():
        if name not in have:
            alone.append(name)
            continue
        found = have[name]
        if found.shape != tensor.shape:
            axis = axes[name]
            times = tensor.shape[axis] // found.shape[axis]
            heads = old.args.sharing == "head"  # the heads of a layer follow each other
            found = found.repeat_interleave(times, axis) if heads else torch.cat([found] * times, axis)
        tensor.copy_(found)
    return alone


@torch.no_grad()
def start_at_zero(new: TupeLanguageModelEncoder, names: list[str]) -> None:
    """Set the terms whose parameters are among `names` to zero, so that they do not change the logits."""
    inner, state = new.sentence_encoder, new.state_dict()
    for part in ("input_segments.weight", "segment_attention.weight", "position_bias.reset.relative"):
        if f"sentence_encoder.{part}" in names:
            state[f"sentence_encoder.{part}"].zero_()
    of_layers = [f"layers.{layer}.self_attn.relative" for layer in range(len(inner.layers))]
    for part in ("position_bias.relative", *of_layers):
        for own in ZERO.get(new.args.relative, ()):
            if f"sentence_encoder.{part}.{own}" in names:
                state[f"sentence_encoder.{part}.{own}"].zero_()
    embeddings = inner.position_bias.embeddings
    if embeddings is not None and "sentence_encoder.position_bias.embeddings.table.weight" in names:
        embeddings.layer_norm.weight.zero_()  # only the gain, because with a zero table too neither would learn
        for layer in inner.layers:  # a distance whose vector is zero still has the bias of the queries
            if layer.self_attn.qkv_proj.bias is not None:
                layer.self_attn.qkv_proj.bias[: new.args.encoder_embed_dim] *= 0.5
    if new.args.absolute == "low_rank_input" and "sentence_encoder.position_bias.absolute.key" in names:
        inner.position_bias.absolute.key.zero_()  # only one of the factors, or neither would ever learn


@torch.no_grad()
def keep_scale(old: TupeLanguageModelEncoder, new: TupeLanguageModelEncoder) -> None:
    """Multiply `W^Q` and `b^Q` of `new` by `s_old / s_new`, so that its content logits are those of `old`.

    If both models have untied positions, `U^Q` is likewise multiplied by the ratio of their scales.
    """
    for theirs, ours in zip(old.sentence_encoder.layers, new.sentence_encoder.layers):
        projection = ours.self_attn.qkv_proj
        for parameter in projection.parameters():
            parameter[: projection.weight.shape[1]] *= theirs.self_attn.scale / ours.self_attn.scale
    theirs, ours = (encoder.sentence_encoder.position_bias.absolute for encoder in (old, new))
    if isinstance(theirs, UntiedAbsolute) and isinstance(ours, UntiedAbsolute):
        for parameter in ours.query.parameters():
            parameter.mul_(theirs.scale / ours.scale)


@torch.no_grad()
def permute_heads(encoder: TupeLanguageModelEncoder, layer: int, order: Tensor) -> None:
    """Move head `order[h]` of a layer to place `h`: the rows of `W^Q, W^K, W^V`, the columns of `W^O`.

    The output of the layer does not change if its heads do not share a term with other layers.
    """
    attention = encoder.sentence_encoder.layers[layer].self_attn
    width = attention.qkv_proj.weight.shape[1]
    columns = torch.arange(width).view(attention.num_heads, -1)[order].flatten()
    rows = torch.cat([columns, columns + width, columns + 2 * width])
    for parameter in attention.qkv_proj.parameters():
        parameter.copy_(parameter[rows].clone())
    attention.out_proj.weight.copy_(attention.out_proj.weight[:, columns].clone())


@torch.no_grad()
def add_mean_position(old: TupeLanguageModelEncoder, new: TupeLanguageModelEncoder) -> None:
    """Add the mean position `p~` to every token embedding of `new`, a constant that every input of `old` has.

    It does not change the softmax of a tied output, because all logits shift by the same amount. `[CLS]`, which is
    always at position 0 and never predicted, keeps its own position.
    """
    words, table = new.sentence_encoder.embed_tokens.weight, old.sentence_encoder.input_positions.weight
    mean = position_weights(len(table)) @ table
    words += mean
    words[old.dictionary.bos()] += table[0] - mean


def position_weights(length: int) -> Tensor:
    """Return weights `(n,)` for a mean of positions: `1/i`, as if any length were equally likely; 0 for `[CLS]`."""
    weights = torch.arange(length).clamp(min=1).reciprocal()
    weights[0] = 0
    return weights / weights.sum()
