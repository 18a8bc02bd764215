"""What goes along as it is: copies of parameters, terms that start at zero, the scale of queries, heads in order."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tupe.models.layer import SelfAttention
from tupe.models.tupe import TupeLanguageModelEncoder

#: Relative term -> its parameters that make it zero, and leave it a gradient by which it learns.
ZERO = {
    "bucketed": ("weight",),
    "clipped": ("weight",),
    "unbinned": ("weight",),
    "parametric": ("key.weight",),
    "shaw": ("key", "value"),
    "deberta": ("query.bias",),  # and its table, see `start_at_zero`
    "fire": ("out_weight", "out_bias"),
}


@torch.no_grad()
def copy(old: TupeLanguageModelEncoder, new: TupeLanguageModelEncoder) -> list[str]:
    """Copy every parameter of `old` that `new` has too, and return the names of those that `new` has alone.

    Where the layers of `old` share a term and those of `new` do not, each gets a copy.
    """
    have, alone, layers = old.state_dict(), [], len(new.sentence_encoder.layers)
    axes = {
        f"{prefix}.{name}": axis
        for prefix, module in new.named_modules()
        for name, axis in getattr(module, "head_axes", {}).items()
    }
    for name, tensor in new.state_dict().items():
        if name not in have:
            alone.append(name)
            continue
        found = have[name]
        tensor.copy_(found if found.shape == tensor.shape else torch.cat([found] * layers, axes[name]))
    return alone


@torch.no_grad()
def start_at_zero(new: TupeLanguageModelEncoder, names: list[str]) -> None:
    """Set the terms to zero whose parameters `names` are, so that the logits are those without them."""
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
        # of a table with a layer norm the gain alone, or neither would ever learn
        (embeddings.layer_norm or embeddings.table).weight.zero_()
        for layer in inner.layers:
            _halve_shared_bias(layer.self_attn)
    if new.args.absolute == "low_rank_input" and "sentence_encoder.position_bias.absolute.key" in names:
        inner.position_bias.absolute.key.zero_()  # of the two factors one stays drawn, or neither would ever learn


def _halve_shared_bias(attention: SelfAttention) -> None:
    """Halve `b^Q` where the queries of distances have it too: a distance whose vector is zero asks with it."""
    relative = attention.relative
    if "p2c" in relative.terms and relative.query is None:
        attention.qkv_proj.bias[: attention.qkv_proj.weight.shape[1]] *= 0.5


@torch.no_grad()
def keep_scale(old: TupeLanguageModelEncoder, new: TupeLanguageModelEncoder) -> float:
    """Multiply `W^Q` and `b^Q` of `new` by `s_old / s_new`: its words' logits are then those of `old`. Return that."""
    pairs = zip(old.sentence_encoder.layers, new.sentence_encoder.layers)
    ratio = 1.0
    for theirs, ours in pairs:
        ratio = theirs.self_attn.scale / ours.self_attn.scale
        if ratio != 1:
            projection = ours.self_attn.qkv_proj
            width = projection.weight.shape[1]
            projection.weight[:width] *= ratio
            projection.bias[:width] *= ratio
    return ratio


@torch.no_grad()
def permute_heads(encoder: TupeLanguageModelEncoder, layer: int, order: Tensor) -> None:
    """Put head `order[h]` of a layer in place `h`: the rows of `W^Q, W^K, W^V`, the columns of `W^O`.

    The layer computes what it did, where its heads share no term with other layers.
    """
    attention = encoder.sentence_encoder.layers[layer].self_attn
    width = attention.qkv_proj.weight.shape[1]
    columns = torch.arange(width).view(attention.num_heads, -1)[order].flatten()
    rows = torch.cat([columns, columns + width, columns + 2 * width])
    for parameter in attention.qkv_proj.parameters():
        parameter.copy_(parameter[rows].clone())
    attention.out_proj.weight.copy_(attention.out_proj.weight[:, columns].clone())


@torch.no_grad()
def into_words(old: TupeLanguageModelEncoder, new: TupeLanguageModelEncoder) -> None:
    """Add the mean position `p~` to every word of `new`, as a constant that every input of `old` has.

    The softmax of a tied output does not see it, whose logits all move by the same.
    """
    new.sentence_encoder.embed_tokens.weight += old.sentence_encoder.input_positions.weight[1:].mean(0)


@torch.no_grad()
def calibrate_norm(old: TupeLanguageModelEncoder, new: TupeLanguageModelEncoder, sequences: Tensor) -> None:
    r"""Fit the norm of the embeddings, which without `p_i - p~` would make the words larger.

    For each dimension, by least squares over the words `z` of `sequences` `(B, n)`, normalised without gain and bias:

        gamma = cov(y, z) / var(z)        beta = E[y] - gamma E[z]        y what the norm of `old` makes of word and p_i
    """
    theirs, ours = old.sentence_encoder, new.sentence_encoder
    norm = ours.layernorm_embedding
    if not isinstance(norm, nn.LayerNorm):
        return
    table, number, sums = theirs.input_positions.weight, 0, 0
    for batch in sequences.split(16):
        segments = 0 if theirs.input_segments is None else theirs.input_segments(theirs.segments(batch))
        words = theirs.embed_tokens(batch) + segments
        y = theirs.layernorm_embedding(words + table[: batch.shape[1]])
        z = F.layer_norm(words + table[1:].mean(0), norm.normalized_shape, eps=norm.eps)
        y, z = (x[:, 1:].flatten(0, 1).double() for x in (y, z))  # [CLS] is one word
        sums = sums + torch.stack([y.sum(0), z.sum(0), (y * z).sum(0), (z * z).sum(0)])
        number += len(y)
    y, z, yz, zz = sums / number
    gamma = (yz - y * z) / (zz - z * z).clamp(min=1e-12)
    norm.weight.copy_(gamma)
    norm.bias.copy_(y - gamma * z)
