"""Count the floating-point operations of a training step."""

from torch import nn


def training_flops(model: nn.Module, tokens: int, length: int, predicted: int) -> int:
    """Count the operations of both passes: 6 a weight and token, 12 a width and key in attention.

    It leaves out what is computed once a batch (the position terms), what activation checkpointing computes again,
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
    return 6 * (tokens * sum(map(_weights, parts)) + predicted * _weights(head)) + 12 * tokens * attention


def _weights(module: nn.Module) -> int:
    once = {"relative", "projection"}  # of vectors of distances, and Linformer's of positions
    return sum(
        weight.numel()
        for name, weight in module.named_parameters()
        if weight.ndim == 2 and once.isdisjoint(name.split("."))
    )
