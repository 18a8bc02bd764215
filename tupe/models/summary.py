"""Parameters and operations of the named models, without allocating them."""

import re
from functools import lru_cache
from types import SimpleNamespace
from typing import NamedTuple

import torch
from fairseq.data import Dictionary
from fairseq.models import ARCH_MODEL_REGISTRY
from torch import nn
from torch.overrides import TorchFunctionMode

from tupe.models.config import named
from tupe.systems import TRANSLATORS

_OF_POSITIONS = re.compile(r"\b(position_bias|cross_position|input_positions|relative)\.")
#: Functions of the initial values; fairseq draws some on the CPU.
_DRAWS = ("normal_", "uniform_", "xavier_uniform_", "kaiming_uniform_", "cpu")


def meta_model(name: str, vocab_size: int, max_positions: int, **fields: object) -> nn.Module:
    """Build the named model on the meta device, where parameters have shapes but no memory.

    `fields` override those of its name; an encoder-decoder has one token embedding unless they differ.
    """
    lengths, one_table = max_positions, {}
    if name in TRANSLATORS:
        lengths, one_table = (max_positions, max_positions), {"share_all_embeddings": True}
    task = SimpleNamespace(cfg=None, max_positions=lambda: lengths)
    task.source_dictionary = task.target_dictionary = dictionary_of_size(vocab_size)
    config = named(name, **{**one_table, **fields, "dictionary_sha256": None})
    with torch.device("meta"), _NoValues():
        return ARCH_MODEL_REGISTRY[name].build_model(config, task)


class _NoValues(TorchFunctionMode):
    """Draw no values for tensors without memory: PyTorch would import its compiler for that, which takes a second."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if getattr(func, "__name__", None) in _DRAWS:
            return args[0] if args else kwargs["tensor"]
        return func(*args, **(kwargs or {}))


@lru_cache(maxsize=1)
def dictionary_of_size(size: int) -> Dictionary:
    """Make a dictionary of `size` symbols, for a model that needs only their number."""
    dictionary = Dictionary()
    dictionary.pad_to_multiple_(size)
    return dictionary


class Size(NamedTuple):
    """Numbers of parameters; a shared one counts once.

    position: the (discriminator's) position encoding, without segments and Linformer's projection.
    total: the whole model with its heads.
    generator: parameters that only a generator has, or 0.
    """

    position: int
    total: int
    generator: int


def size_of(model: nn.Module) -> Size:
    """Count the parameters of a model of `meta_model`."""
    counts = {name: p.numel() for name, p in model.named_parameters()}  # a shared one under its first name
    alone = sum(number for name, number in counts.items() if name.startswith("generator."))
    others = ((name, number) for name, number in counts.items() if not name.startswith("generator."))
    return Size(sum(number for name, number in others if _OF_POSITIONS.search(name)), sum(counts.values()), alone)


def training_flops(model: nn.Module, tokens: int, length: int, predicted: int) -> int:
    """Count the operations of both passes: 6 a weight and token, 12 a width and key in attention, 18 in PoPE's.

    It omits operations once per batch (the position terms), those that activation checkpointing repeats,
    Linformer's projection, and that its keys and values are fewer.

    Args:
        model: has an `encoder`, a `TupeLanguageModelEncoder`; with a `generator`, another, both do every step.
        tokens: without padding.
        length: of the sequences, `T`.
        predicted: positions with logits.
    """
    if hasattr(model, "generator"):
        generator = _network_flops(model.generator, model.generator.lm_head, tokens, length, predicted)
        return generator + _network_flops(model.encoder, model.discriminator_head, tokens, length, tokens)
    return _network_flops(model.encoder, model.encoder.lm_head, tokens, length, predicted)


def _network_flops(encoder: nn.Module, head: nn.Module, tokens: int, length: int, predicted: int) -> int:
    keys = min(length, encoder.args.linformer_k or length)
    attention = keys * encoder.args.encoder_embed_dim * encoder.args.encoder_layers
    parts = encoder.sentence_encoder.layers, encoder.sentence_encoder.embedding_projection
    products = 3 if encoder.args.relative == "pope" else 2  # of the width of values
    return 6 * (tokens * (sum(map(_weights, parts)) + products * attention) + predicted * _weights(head))


def _weights(module: nn.Module) -> int:
    once = {"relative", "projection"}  # of vectors of distances, and Linformer's of positions
    return sum(
        weight.numel()
        for name, weight in module.named_parameters()
        if weight.ndim == 2 and once.isdisjoint(name.split("."))
    )
