"""The steps of a warm start in their order."""

import copy as copies
from argparse import Namespace
from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from tupe.checkpoints.warm_start.carry import (
    ZERO,
    calibrate_norms,
    copy,
    into_words,
    keep_scale,
    permute_heads,
    start_at_zero,
)
from tupe.checkpoints.warm_start.fit import fit, fit_cross, fit_shaw, held, shares
from tupe.checkpoints.warm_start.logits import (
    TOKENS,
    Positions,
    agreeing_heads,
    centred,
    closest,
    in_heads,
    logits_of,
    positions_from_weights,
    positions_of,
    words_of,
)
from tupe.checkpoints.warm_start.target import why_not_exact
from tupe.models.describe import full_name
from tupe.models.summary import dictionary_of_size
from tupe.models.tupe import TupeLanguageModelEncoder

#: How the positions come into the terms: from text, from the weights of the first layer, or not at all.
POSITIONS = ("calibrate", "weights", "new")
LEAST = 64  # full sequences that a calibration needs


class Started(NamedTuple):
    """The new model, and how it came about."""

    encoder: TupeLanguageModelEncoder
    exact: bool  # whether its outputs are the old model's
    held: list[float] | None = None  # of the logits of positions in each layer, the share that the terms hold


def warm_start(
    old: TupeLanguageModelEncoder,
    fields: Namespace,
    sequences: Tensor | None = None,
    positions: str = POSITIONS[0],
    seed: int = 1,
) -> Started:
    """Make `old`, a trained masked language model in evaluation mode, into the model of `fields` (`target_fields`).

    What is not exact needs `sequences`: masked text `(B, n)`, `n` as long as `old` takes. `positions` is one of
    `POSITIONS`, and `seed` that of the parameters that are drawn.
    """
    exact = why_not_exact(old.args, fields) is None
    new = build(fields, old.sentence_encoder.embed_tokens.num_embeddings, seed)
    start_at_zero(new, copy(old, new))
    ratio = keep_scale(old, new)
    shown = None
    if not exact:
        into_words(old, new)
        shown = _take_positions(old, new, sequences, positions, ratio)
        if sequences is not None:
            calibrate_norms(old, new, _few(sequences))
    new.shown_as, new.discriminates = full_name(fields), False  # as `tupe.analysis.open_encoder` says of a model
    return Started(new.eval(), exact, shown)


def _few(sequences: Tensor) -> Tensor:
    """Return as many sequences as one batch has."""
    return sequences[: max(1, TOKENS // sequences.shape[1])]


def _take_positions(
    old: TupeLanguageModelEncoder, new: TupeLanguageModelEncoder, sequences: Tensor | None, source: str, ratio: float
) -> list[float] | None:
    """Fit the terms of `new` to what the positions of `old` do.

    Returns the share of it that they hold in each layer, in the first alone where it alone was fitted; `None` without.
    """
    if source == "new":
        return None
    if new.args.relative == "dual_triangle":  # an absolute term would be fitted to undo the masks
        return [0.0] * len(new.sentence_encoder.layers)
    inner, args = new.sentence_encoder, new.args
    shaw = (args.absolute, args.relative) == ("none", "shaw")
    if source == "weights":
        positions = positions_from_weights(old)
    else:
        assert sequences is not None, f"{args._name} takes the positions out of the input, which needs text (--data)"
        if shaw:
            return _fit_shaw(old, new, _few(sequences))
        positions = positions_of(old, sequences)
    logits = logits_of(old, positions)
    table = old.sentence_encoder.input_positions.weight.detach()
    if args.absolute == "untied_cross":
        fit_cross(inner.position_bias.absolute, old, positions, table, ratio)
        return shares(logits, _of_cross(new, old, positions, ratio))
    fitted = args.absolute == "none" or args.relative not in ("none", *ZERO)
    if source == "weights":
        logits = logits[:1].expand_as(logits)
    elif args.sharing == "layer" and old.sentence_encoder.segment_attention is None:
        logits = _order_heads(new, logits)
    of_sets = {"layer": logits.mean(0), "none": logits.flatten(0, 1), "head": logits.mean(1)}[args.sharing]
    fit(inner.position_bias, of_sets, table, relative=fitted)
    found = held(inner.position_bias, logits, args.sharing)
    return found[:1] if source == "weights" else found


def _order_heads(new: TupeLanguageModelEncoder, logits: Tensor) -> Tensor:
    """Put the heads of each layer where those of the others do the same, or where ALiBi's fixed slopes are the closest.

    Returns the logits in the same order.
    """
    position = new.sentence_encoder.position_bias
    if new.args.absolute == "none" and position.relative is not None and not position.has_parameters:
        places = centred(position.compute(logits.shape[-1]).bias).flatten(1)
        orders = torch.stack([closest(places, layer.flatten(1)) for layer in logits])
    else:
        orders = agreeing_heads(logits)
    for layer, order in enumerate(orders):
        permute_heads(new, layer, order)
    return torch.stack([layer[order] for layer, order in zip(logits, orders)])


@torch.no_grad()
def _fit_shaw(old: TupeLanguageModelEncoder, new: TupeLanguageModelEncoder, sequences: Tensor) -> list[float]:
    """Fit the vectors of one layer after the other, to what the logits of its words lack now.

    These are the words that come out of the layers below as they are fitted. What the vectors hold is by the mean query
    at each position.
    """
    layers, held_by = list(zip(*(encoder.sentence_encoder.layers for encoder in (old, new)))), []
    for number, (theirs, ours) in enumerate(layers):
        calibrate_norms(old, new, sequences)
        states = (encoder.sentence_encoder(sequences, return_all_hiddens=True)[1] for encoder in (old, new))
        (_, wanted), (queries, found) = (words_of(layer, x[number]) for layer, x in zip((theirs, ours), states))
        logits, attention = centred(wanted - found), ours.self_attn
        fit_shaw(attention.relative, queries, logits, attention.scale)
        mean = queries.mean(0, keepdim=True)
        values = centred(attention.relative(mean, mean, attention.scale)[0])  # of as many keys
        held_by += shares(logits.unsqueeze(0), values.unsqueeze(0))
    return held_by


@torch.no_grad()
def _of_cross(
    new: TupeLanguageModelEncoder, old: TupeLanguageModelEncoder, positions: Positions, ratio: float
) -> Tensor:
    """Compute the logits of the positions of BERT-A^d, `(L, H, n, n)`, by their queries and the mean one of words."""
    inner = new.sentence_encoder
    terms = inner.position_bias.compute(positions.hidden.shape[1])
    by_layer = (x.unflatten(0, (len(inner.layers), -1)) for x in (terms.content_query, terms.content_key))
    values = []
    for layer, (query, key) in enumerate(zip(*by_layer)):
        attention = old.sentence_encoder.layers[layer].self_attn
        width = positions.mean.shape[-1]
        words = attention.qkv_proj.weight[:width] @ positions.mean[layer] + attention.qkv_proj.bias[:width]
        words = in_heads(words.unsqueeze(0), attention.num_heads)  # H 1 d_h
        scale = inner.layers[layer].self_attn.scale
        values.append(centred(scale * (query + ratio * words) @ key.transpose(1, 2)))
    return torch.stack(values)


def checkpoint_weights(new: TupeLanguageModelEncoder, old: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], list[str]]:
    """Return the parameters of a checkpoint of `new`, and the parts of `old` that are left behind, as heads of tasks.

    BERT's pooler goes along, with which a task's head can begin.
    """
    weights = {f"encoder.{name}": tensor for name, tensor in new.state_dict().items()}
    others = {name: tensor for name, tensor in old.items() if not name.startswith("encoder.")}
    weights.update({name: tensor for name, tensor in others.items() if name.startswith("pooler.")})
    return weights, sorted({".".join(name.split(".")[:2]) for name in others.keys() - weights.keys()})


def without_order(old: TupeLanguageModelEncoder) -> TupeLanguageModelEncoder:
    """Copy the old model with the mean position at every place, which tells no order: the yardstick of a fit."""
    model = copies.deepcopy(old)
    table = model.sentence_encoder.input_positions.weight
    with torch.no_grad():
        table.copy_(table[1:].mean(0).expand_as(table).clone())
    return model


def build(fields: Namespace, symbols: int, seed: int = 1) -> TupeLanguageModelEncoder:
    """Build the model of `fields`, whose parameters are drawn with `seed`."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return TupeLanguageModelEncoder(Namespace(**vars(fields)), dictionary_of_size(symbols))


@torch.no_grad()
def difference(old: TupeLanguageModelEncoder, new: TupeLanguageModelEncoder, seed: int = 1) -> tuple[float, float]:
    """Return how far apart the logits of two models are, and the largest of `old`, on two sequences of any symbols."""
    inner = old.sentence_encoder
    generator = torch.Generator().manual_seed(seed)
    shape = 2, min(inner.max_positions, 64)
    tokens = torch.randint(4, inner.embed_tokens.num_embeddings, shape, generator=generator)
    tokens[:, 0] = old.dictionary.bos()
    before, after = old(tokens)[0], new(tokens)[0]
    return float((before - after).abs().max()), float(before.abs().max())
