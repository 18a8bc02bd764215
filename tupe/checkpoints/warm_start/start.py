"""The steps of a warm start in order, and the measures by which a user can judge its result."""

import copy as copies
from argparse import Namespace
from collections.abc import Mapping
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from tupe.checkpoints.warm_start.carry import add_mean_position, copy, keep_scale, permute_heads, start_at_zero
from tupe.checkpoints.warm_start.fit import TOKENS, agreeing_heads, fit, has_fit, logits_of
from tupe.models.describe import full_name, with_fields
from tupe.models.summary import dictionary_of_size
from tupe.models.tupe import TupeLanguageModelEncoder
from tupe.systems import ALIASES, EXTENT, SIZES, SYSTEMS

EXACT = 1e-5  # the largest difference of features that rounding causes, as a fraction of the largest feature


def target_fields(old: TupeLanguageModelEncoder, system: str, fields: list[str]) -> Namespace:
    """Return the fields of the new model: those of `old`, the row of `system` over them, and `FIELD=VALUE` over that.

    The segments of `old` are kept even if the system has none.
    """
    source = old.args
    system = ALIASES.get(system, system)
    size = next(size for size in reversed(SIZES) if source._name.endswith(f"_{size}"))  # `modern_base` before `base`
    name = f"{system}_{size}"
    asked, given = vars(with_fields(name, fields)), {field.partition("=")[0] for field in fields}
    stays = {} if source.segment == "none" else {"segment": source.segment}
    if SYSTEMS[system]["relative"] != source.relative:  # the reach of a new term is not that of the old one
        given |= {*EXTENT}
    chosen = {field: asked[field] for field in given}
    return Namespace(**{**vars(source), **SYSTEMS[system], **stays, **chosen, "_name": name})


class Started(NamedTuple):
    """The new model, how far its features were from the old model's before any fit, and whether a term was fitted."""

    encoder: TupeLanguageModelEncoder
    apart: float
    fitted: bool

    @property
    def exact(self) -> bool:
        return self.apart <= EXACT


def warm_start(
    old: TupeLanguageModelEncoder, fields: Namespace, sequences: Tensor | None = None, seed: int = 1
) -> Started:
    """Convert `old`, a trained encoder in evaluation mode, to the model of `fields` (`target_fields`).

    If positions at the input are removed, the terms are fitted to `sequences`: text `(B, n)`, with the longest `n` that
    `old` takes. Without text, or if `old` has no positions at the input, new terms are drawn with `seed`.
    """
    new = build(fields, old.sentence_encoder.embed_tokens.num_embeddings, seed, old.lm_head is not None)
    start_at_zero(new, copy(old, new))
    keep_scale(old, new)
    apart = difference(old, new.eval())
    before, after = (encoder.sentence_encoder.input_positions for encoder in (old, new))
    leave = apart > EXACT and before is not None and after is None
    fitted = leave and sequences is not None and has_fit(new.sentence_encoder.position_bias)
    if leave:
        add_mean_position(old, new)
    if fitted:
        _take_positions(old, new, sequences)
    new.shown_as = full_name(fields)  # as in `tupe.analysis.checkpoint.open_encoder`
    return Started(new, apart, fitted)


def _take_positions(old: TupeLanguageModelEncoder, new: TupeLanguageModelEncoder, sequences: Tensor) -> None:
    """Fit the terms of `new` to the effect of the positions of `old` on its attention."""
    logits, sharing = logits_of(old, sequences), new.args.sharing
    if sharing == "layer" and old.args.relative == "none" and old.sentence_encoder.segment_attention is None:
        orders = agreeing_heads(logits)
        for layer, order in enumerate(orders):
            permute_heads(new, layer, order)
        logits = torch.stack([layer[order] for layer, order in zip(logits, orders)])
    of_sets = {"layer": logits.mean(0), "none": logits.flatten(0, 1), "head": logits.mean(1)}[sharing]
    fit(new.sentence_encoder.position_bias, of_sets, old.sentence_encoder.input_positions.weight.detach())


def checkpoint_weights(new: TupeLanguageModelEncoder, old: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], list[str]]:
    """Return the parameters of a checkpoint of `new`, and the parts of `old` that it leaves out, such as task heads.

    BERT's pooler is kept, because a task's head can start with it.
    """
    weights = {f"encoder.{name}": tensor for name, tensor in new.state_dict().items()}
    others = {name: tensor for name, tensor in old.items() if not name.startswith("encoder.")}
    weights.update({name: tensor for name, tensor in others.items() if name.startswith("pooler.")})
    return weights, sorted({".".join(name.split(".")[:2]) for name in others.keys() - weights.keys()})


def without_order(old: TupeLanguageModelEncoder) -> TupeLanguageModelEncoder:
    """Copy the old model with a mean position at every place but `[CLS]`'s: a baseline for a fit, without order."""
    model = copies.deepcopy(old)
    table = model.sentence_encoder.input_positions.weight
    with torch.no_grad():
        table[1:] = table[1:64].mean(0)  # most texts are this short: closer to the model than the mean of all
    return model


@torch.no_grad()
def closeness(old: TupeLanguageModelEncoder, new: TupeLanguageModelEncoder, text: Tensor, length: int) -> float:
    """Return the mean cosine of the features of `new` to those of `old`, at the tokens of `text` `(N,)`.

    The text is cut into sequences of `length` tokens that start with `[CLS]`, at most one batch of them.
    """
    number = min(TOKENS // length, len(text) // (length - 1)) or 1
    tokens = F.pad(text[: number * (length - 1)].view(number, -1), (1, 0), value=old.dictionary.bos())
    ours, theirs = (encoder.sentence_encoder(tokens)[0] for encoder in (new, old))
    return float(F.cosine_similarity(ours, theirs, dim=-1).mean())


def build(fields: Namespace, symbols: int, seed: int = 1, with_head: bool = True) -> TupeLanguageModelEncoder:
    """Build the model of `fields`, whose parameters are drawn with `seed`."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return TupeLanguageModelEncoder(Namespace(**vars(fields)), dictionary_of_size(symbols), with_head)


@torch.no_grad()
def difference(old: TupeLanguageModelEncoder, new: TupeLanguageModelEncoder) -> float:
    """Return the largest difference of two models' features, as a fraction of the largest, on random tokens."""
    inner = old.sentence_encoder
    tokens = torch.randint(
        4, inner.embed_tokens.num_embeddings, (2, inner.max_positions), generator=torch.Generator().manual_seed(1)
    )
    tokens[:, 0] = old.dictionary.bos()
    middle = inner.max_positions // 2  # the first sequence is a pair, so that segments count
    tokens[0, middle : middle + inner.pair_separators] = tokens[:, -1] = old.dictionary.eos()
    before, after = (encoder.sentence_encoder(tokens)[0] for encoder in (old, new))
    return float((before - after).abs().max() / before.abs().max())
