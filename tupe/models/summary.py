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
#: Functions that draw initial values; fairseq draws some on the CPU.
_DRAWS = ("normal_", "uniform_", "xavier_uniform_", "kaiming_uniform_", "cpu")


def meta_model(name: str, vocab_size: int, max_positions: int, **fields: object) -> nn.Module:
    """Build the named model on the meta device, where parameters have shapes but no memory.

    `fields` override those of its name.
    """
    lengths = (max_positions, max_positions) if name in TRANSLATORS else max_positions
    task = SimpleNamespace(cfg=None, args=None, max_positions=lambda: lengths)
    task.source_dictionary = task.target_dictionary = dictionary_of_size(vocab_size)
    config = named(name, **{**fields, "dictionary_sha256": None})
    with torch.device("meta"), _NoValues():
        return ARCH_MODEL_REGISTRY[name].build_model(config, task)


class _NoValues(TorchFunctionMode):
    """Skip drawing values of tensors without memory: PyTorch would import its compiler, which takes a second."""

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
    """Numbers of parameters. A shared parameter counts once.

    position: the (discriminator's) position encoding, without segments and Linformer's projection.
    total: the whole model with its heads.
    generator: parameters that only a generator has, or 0.
    """

    position: int
    total: int
    generator: int


def size_of(model: nn.Module) -> Size:
    """Count the parameters of a model that `meta_model` built."""
    counts = {name: p.numel() for name, p in model.named_parameters()}  # a shared one under its first name
    alone = sum(number for name, number in counts.items() if name.startswith("generator."))
    others = ((name, number) for name, number in counts.items() if not name.startswith("generator."))
    return Size(sum(number for name, number in others if _OF_POSITIONS.search(name)), sum(counts.values()), alone)


def training_flops(model: nn.Module, tokens: int, length: int, predicted: int) -> int:
    """Count the operations of both passes: 6 per weight and token; in attention 12 per column and key.

    The 12 become 18 with PoPE, 24 with Shaw's vectors (36 with `shaw_values`) and 36 with DeBERTa's.

    The count omits operations once per batch (the position terms), operations that activation checkpointing repeats
    and Linformer's projection, and ignores that Linformer projects fewer keys and values.

    Args:
        model: its `encoder` is a `TupeLanguageModelEncoder`, and so is its `generator`, if it has one.
        tokens: number of tokens, without padding.
        length: `T`, the length of the sequences.
        predicted: number of positions with logits.
    """
    if hasattr(model, "generator"):
        generator = _network_flops(model.generator, model.generator.lm_head, tokens, length, predicted)
        return generator + _network_flops(model.encoder, model.discriminator_head, tokens, length, tokens)
    return _network_flops(model.encoder, model.encoder.lm_head, tokens, length, predicted)


def _network_flops(encoder: nn.Module, head: nn.Module, tokens: int, length: int, predicted: int) -> int:
    keys = min(length, encoder.args.linformer_k or length)
    attention = keys * encoder.args.encoder_embed_dim * encoder.args.encoder_layers
    parts = encoder.sentence_encoder.layers, encoder.sentence_encoder.embedding_projection
    of_term = {"pope": 1, "shaw": 2 + 2 * encoder.args.shaw_values, "deberta": 4}
    products = 2 + of_term.get(encoder.args.relative, 0)  # 2: `q k^T` and the product with v
    return 6 * (tokens * (sum(map(_weights, parts)) + products * attention) + predicted * _weights(head))


def _weights(module: nn.Module) -> int:
    once = {"relative", "projection"}  # not per token: vectors of distances, Linformer's projection
    return sum(
        weight.numel()
        for name, weight in module.named_parameters()
        if weight.ndim == 2 and once.isdisjoint(name.split("."))
    )
