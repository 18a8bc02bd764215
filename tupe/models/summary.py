"""Sizes of the named models, without allocating them."""

from __future__ import annotations

from argparse import Namespace
from typing import NamedTuple, Optional

import torch
from fairseq.data import Dictionary
from torch import nn

from tupe.models.config import CONFIGS
from tupe.models.electra import DiscriminatorHead, build_networks
from tupe.models.encoder import TupeEncoder
from tupe.models.tupe import TupeLanguageModelEncoder, as_namespace
from tupe.systems import ELECTRA_NAMES


def _described(
    name: str, vocab_size: int, max_positions: int, fields: dict[str, object]
) -> tuple[Namespace, Dictionary]:
    dictionary = Dictionary()
    for index in range(len(dictionary), vocab_size):
        dictionary.add_symbol(str(index))
    return as_namespace(CONFIGS[name](max_positions=max_positions, **fields)), dictionary


def _number(*modules: Optional[nn.Module]) -> int:
    return sum(p.numel() for p in {p for module in modules if module is not None for p in module.parameters()})


def _positions(encoder: TupeEncoder) -> int:
    """Segments and Linformer's projection are none."""
    return _number(
        encoder.position_bias, encoder.input_positions, *(layer.self_attn.relative for layer in encoder.layers)
    )


def count_parameters(name: str, vocab_size: int, max_positions: int, **fields: object) -> tuple[int, int]:
    """Parameters of the position encoding, and of the whole model with its heads (`tupe systems`).

    Of a model with a generator: the discriminator's encoding, and both networks, with what they share once. `fields`
    override those of the named model.
    """
    if name in ELECTRA_NAMES:
        networks = count_networks(name, vocab_size, max_positions, **fields)
        return networks.position, networks.discriminator + networks.generator
    args, dictionary = _described(name, vocab_size, max_positions, fields)
    with torch.device("meta"):
        model = TupeLanguageModelEncoder(args, dictionary)
    return _positions(model.sentence_encoder), _number(model)


class Networks(NamedTuple):
    """Parameters of a model with a generator.

    discriminator: with its head and all that is shared.
    generator: what it has alone.
    position: of the discriminator.
    """

    discriminator: int
    generator: int
    position: int


def count_networks(name: str, vocab_size: int, max_positions: int, **fields: object) -> Networks:
    """Parameters of the two networks of `name`, one of `ELECTRA_NAMES`; otherwise as `count_parameters`."""
    args, dictionary = _described(name, vocab_size, max_positions, fields)
    with torch.device("meta"):
        generator, discriminator = build_networks(args, dictionary)
        head = DiscriminatorHead(args.encoder_embed_dim, args.activation_fn)
    alone = _number(discriminator, head)
    return Networks(alone, _number(generator, discriminator, head) - alone, _positions(discriminator.sentence_encoder))
