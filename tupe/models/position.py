"""Build the position terms of the attention from the configuration."""

import inspect
from argparse import Namespace

from tupe.position import (
    BucketedRelative,
    ClippedRelative,
    FreeAbsolute,
    LowRankAbsolute,
    ParametricRelative,
    PositionBias,
    RelativeEmbeddings,
    Reset,
    Rotary,
    SegmentAttention,
    Term,
    UnbinnedRelative,
    UntiedAbsolute,
)
from tupe.position.registry import REGISTRY
from tupe.systems import IN_LAYER


def embedding_width(args: Namespace) -> int:
    """Return the width of the tables of words and positions."""
    return args.embedding_dim or args.encoder_embed_dim


def sets_of_parameters(args: Namespace) -> int:
    """Return how many heads of the model have position parameters of their own (DIET, section 4.4)."""
    layers, heads = args.encoder_layers, args.encoder_attention_heads
    return {"none": layers * heads, "layer": heads, "head": layers}[args.sharing]


def num_products(args: Namespace) -> int:
    """Return how many products of words, positions and distances the logit sums."""
    return {"untied": 2, "untied_cross": 4}.get(args.absolute, 1) + 2 * (args.relative == "deberta")


def build_registered(side: str, args: Namespace, bidirectional: bool) -> Term | None:
    """Build the registered term that the field `side` names; `None` if it names no registered term."""
    registered = REGISTRY[side].get(getattr(args, side))
    if registered is None:
        return None
    width, heads = args.encoder_embed_dim, args.encoder_attention_heads
    model = {
        "layer_heads": heads,
        "embed_dim": width,
        "head_dim": width // heads,
        "sharing": args.sharing,
        "bidirectional": bidirectional,
    }
    takes = inspect.signature(registered.term).parameters
    given = {name: value for name, value in model.items() if name in takes}
    options = {name: getattr(args, name) for name in registered.options}
    return registered.term(sets_of_parameters(args), args.max_positions, **given, **options)


def build_absolute(args: Namespace, bidirectional: bool = True) -> Term | None:
    """Build the absolute term of the attention; `None` where positions are added to the words."""
    sets, length, width = sets_of_parameters(args), args.max_positions, args.encoder_embed_dim
    if args.absolute in ("untied", "untied_cross"):
        return UntiedAbsolute(
            length,
            embedding_width(args),
            sets,
            width // args.encoder_attention_heads,
            num_terms=num_products(args),
            projection_bias=args.untied_projection_bias,
            layer_norm=not args.no_untied_layer_norm,
            layer_norm_eps=args.layer_norm_eps,
        )
    if args.absolute in ("low_rank", "low_rank_input"):
        return LowRankAbsolute(length, args.position_rank, sets, args.linformer_k or None)
    if args.absolute == "free":
        return FreeAbsolute(length, sets)
    return build_registered("absolute", args, bidirectional)


def build_relative(args: Namespace, bidirectional: bool = True) -> Term | None:
    """Build the content-free relative term; each layer builds the terms `IN_LAYER`, which depend on the words."""
    sets, width = sets_of_parameters(args), args.encoder_embed_dim
    if args.relative == "bucketed":
        return BucketedRelative(sets, args.relative_buckets, args.relative_max_distance, bidirectional)
    if args.relative == "clipped":
        return ClippedRelative(sets, args.relative_max_distance)
    if args.relative == "unbinned":
        return UnbinnedRelative(sets, args.max_positions, bidirectional)
    if args.relative == "parametric":
        return ParametricRelative(width, sets, width // args.encoder_attention_heads, args.relative_max_distance)
    return build_registered("relative", args, bidirectional)


def build_rotation(args: Namespace) -> Rotary | None:
    """Build the rotation of queries and keys; `None` without `rotary_dims`."""
    if not args.rotary_dims:
        return None
    head_dim = args.encoder_embed_dim // args.encoder_attention_heads
    return Rotary(head_dim, args.rotary_dims, args.rotary_base)


def build_embeddings(args: Namespace) -> RelativeEmbeddings | None:
    """Build DeBERTa's table of distances; `None` for other relative terms."""
    if args.relative != "deberta":
        return None
    return RelativeEmbeddings(
        args.encoder_embed_dim, args.relative_max_distance, args.relative_buckets, args.layer_norm_eps
    )


def build_position_bias(args: Namespace, bidirectional: bool = True) -> PositionBias:
    """Build the content-free terms; a decoder is not `bidirectional`."""
    absolute, relative, reset = build_absolute(args, bidirectional), build_relative(args, bidirectional), None
    if args.reset != "none":
        vectors = embedding_width(args) if isinstance(absolute, UntiedAbsolute) else None
        reset = Reset(sets_of_parameters(args), vectors, args.reset, relative is not None)
    return PositionBias(
        absolute,
        relative,
        reset,
        cross=args.absolute == "untied_cross",
        rotation=build_rotation(args),
        embeddings=build_embeddings(args),
        num_terms=args.content_terms or num_products(args),
    )


def structured_width(args: Namespace, position_bias: PositionBias) -> int | None:
    """Return the width that a kernel needs for a structured bias; `None` where the bias cannot be structured."""
    if position_bias.structured_width is None or args.relative in IN_LAYER:
        return None
    return max(position_bias.structured_width, args.encoder_embed_dim // args.encoder_attention_heads)


def build_segment_attention(args: Namespace) -> SegmentAttention | None:
    """Build the segment term of the attention, shared like the other terms; `None` without segments there."""
    if args.segment != "per_head":
        return None
    layers = 1 if args.sharing == "layer" else args.encoder_layers
    return SegmentAttention(sets_of_parameters(args) // layers, layers)
