"""What goes along as it is: copies of parameters, terms that start at zero, the scale of queries, heads in order."""

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tupe.models.layer import SelfAttention
from tupe.models.tupe import TupeLanguageModelEncoder
from tupe.position import UntiedAbsolute

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
    """Multiply `W^Q` and `b^Q` of `new` by `s_old / s_new`: its words' logits are then those of `old`. Return that.

    `U^Q` of untied positions, which `old` has too, likewise by the ratio of their scales.
    """
    pairs = zip(old.sentence_encoder.layers, new.sentence_encoder.layers)
    ratio = 1.0
    for theirs, ours in pairs:
        ratio = theirs.self_attn.scale / ours.self_attn.scale
        if ratio != 1:
            projection = ours.self_attn.qkv_proj
            width = projection.weight.shape[1]
            projection.weight[:width] *= ratio
            projection.bias[:width] *= ratio
    theirs, ours = (encoder.sentence_encoder.position_bias.absolute for encoder in (old, new))
    if isinstance(theirs, UntiedAbsolute) and isinstance(ours, UntiedAbsolute):
        for parameter in ours.query.parameters():
            parameter.mul_(theirs.scale / ours.scale)
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
    _fit_norm(norm, *sums / number)


@torch.no_grad()
def calibrate_layers(old: TupeLanguageModelEncoder, new: TupeLanguageModelEncoder, sequences: Tensor) -> None:
    """Fit the norms of pre-norm layers, and the last one, as that of the embeddings, on `sequences` `(B, n)`.

    Positions at the input go through all layers of such a model, so that without them each norm would make the rest of
    its input larger. Each is fitted to the output of the one of `old` in its place, after those before it.
    """
    wanted: dict[str, Tensor] = {}

    def keep(name: str, y: Tensor) -> None:
        wanted[name] = y

    def fit(name: str, norm: nn.LayerNorm, x: Tensor) -> None:
        z = F.layer_norm(x, norm.normalized_shape, eps=norm.eps)
        y, z = (part[:, 1:].flatten(0, 1).double() for part in (wanted.pop(name), z))
        _fit_norm(norm, y.mean(0), z.mean(0), (y * z).mean(0), (z * z).mean(0))

    hooks = []
    for name, norm in _norms(old):
        hooks.append(norm.register_forward_hook(lambda _, x, y, name=name: keep(name, y)))
    for name, norm in _norms(new):
        hooks.append(norm.register_forward_pre_hook(lambda norm, x, name=name: fit(name, norm, x[0])))
    try:
        for model in (old, new.eval()):  # all hidden states, so that no sequence is packed
            model.sentence_encoder(sequences, num_tokens=sequences.numel(), return_all_hiddens=True)
    finally:
        for hook in hooks:
            hook.remove()


def _norms(encoder: TupeLanguageModelEncoder) -> Iterator[tuple[str, nn.LayerNorm]]:
    """Yield the norms of the layers and the one after them, with their names."""
    for name, module in encoder.sentence_encoder.named_modules():
        if isinstance(module, nn.LayerNorm) and name.endswith(("self_attn_layer_norm", "final_layer_norm")):
            yield name, module
    yield "layer_norm", encoder.sentence_encoder.layer_norm


def _fit_norm(norm: nn.LayerNorm, y: Tensor, z: Tensor, yz: Tensor, zz: Tensor) -> None:
    """Set gain and bias by the means of `y`, `z`, `y z` and `z^2`."""
    gamma = (yz - y * z) / (zz - z * z).clamp(min=1e-12)
    norm.weight.copy_(gamma)
    norm.bias.copy_(y - gamma * z)
