"""The steps of a warm start in their order."""

from argparse import Namespace
from typing import NamedTuple

import torch

from tupe.checkpoints.warm_start.carry import copy, keep_scale, start_at_zero
from tupe.checkpoints.warm_start.target import why_not_exact
from tupe.errors import UserError
from tupe.models.summary import dictionary_of_size
from tupe.models.tupe import TupeLanguageModelEncoder


class Started(NamedTuple):
    """The new model, and how it came about."""

    encoder: TupeLanguageModelEncoder
    exact: bool  # whether its outputs are the old model's


def warm_start(old: TupeLanguageModelEncoder, fields: Namespace, seed: int = 1) -> Started:
    """Make `old` into the model of `fields`.

    Args:
        old: a trained masked language model, in evaluation mode.
        fields: of `target_fields`.
        seed: of the parameters that are drawn.

    Raises:
        UserError: for a system that the model cannot be made into.
    """
    new = build(fields, old.sentence_encoder.embed_tokens.num_embeddings, seed)
    why = why_not_exact(old.args, fields)
    if why is not None:
        raise UserError(f"{old.shown_as} cannot be made into {fields._name}: {why}.")
    start_at_zero(new, copy(old, new))
    keep_scale(old, new)
    return Started(new.eval(), True)


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
