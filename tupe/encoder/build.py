"""Build the position terms of a model from its fields."""

from argparse import Namespace
from typing import Any

from tupe.position import Phases, PositionBias, RelativeEmbeddings, Reset, Rotary, SegmentAttention, UntiedAbsolute
from tupe.position.registry import build_term

#: Choices without a term in the registry: none, a table at the input, and relative terms that act on the content.
_NO_TERM = {"absolute": ("none", "input", "sinusoidal"), "relative": ("none", "shaw", "deberta", "pope")}
#: Choices of `absolute` that are built from the term of another choice.
_SAME_TERM = {"untied_cross": "untied", "low_rank_input": "low_rank"}


def embedding_width(args: Namespace) -> int:
    """Return the width of the tables of tokens and positions."""
    return args.embedding_dim or args.encoder_embed_dim


def num_position_heads(args: Namespace) -> int:
    """Return how many heads of the model have position parameters of their own (DIET, section 4.4)."""
    layers, heads = args.encoder_layers, args.encoder_attention_heads
    return {"none": layers * heads, "layer": heads, "head": layers}[args.sharing]


def num_products(args: Namespace) -> int:
    """Return how many products of content, positions and distances the logit sums."""
    return {"untied": 2, "untied_cross": 4}.get(args.absolute, 1) + 2 * (args.relative == "deberta")


def arguments(args: Namespace, bidirectional: bool) -> dict[str, Any]:
    """Return the arguments that the constructor of a term may take, by name; a decoder is not `bidirectional`."""
    return {
        **vars(args),
        "num_heads": num_position_heads(args),
        "layer_heads": args.encoder_attention_heads,
        "embed_dim": args.encoder_embed_dim,
        "head_dim": args.encoder_embed_dim // args.encoder_attention_heads,
        "bidirectional": bidirectional,
        "num_terms": num_products(args),
        "projection_bias": args.untied_projection_bias,
        "layer_norm": not args.no_untied_layer_norm,
        "rank": args.position_rank,
        "num_keys": args.linformer_k or None,
        "num_buckets": args.relative_buckets,
        "max_distance": args.relative_max_distance,
    }


def build_position_bias(args: Namespace, bidirectional: bool = True) -> PositionBias:
    """Build the `PositionBias` of a model, which is computed once per batch."""
    known = arguments(args, bidirectional)
    absolute = relative = reset = phases = embeddings = None
    if args.absolute not in _NO_TERM["absolute"]:
        name = _SAME_TERM.get(args.absolute, args.absolute)
        absolute = build_term("absolute", name, {**known, "embed_dim": embedding_width(args)})
    if args.relative not in _NO_TERM["relative"]:
        relative = build_term("relative", args.relative, known)
    if args.reset != "none":
        vectors = embedding_width(args) if isinstance(absolute, UntiedAbsolute) else None
        reset = Reset(known["num_heads"], vectors, args.reset, relative is not None)
    if args.relative == "pope":
        phases = Phases(known["num_heads"], known["head_dim"])
    if args.relative == "deberta":
        embeddings = RelativeEmbeddings(
            args.encoder_embed_dim, args.relative_max_distance, args.relative_buckets, args.layer_norm_eps
        )
    return PositionBias(
        absolute,
        relative,
        reset,
        cross=args.absolute == "untied_cross",
        rotation=build_rotation(args, args.rotary_base),
        phases=phases,
        embeddings=embeddings,
        num_terms=args.content_terms or num_products(args),
    )


def build_rotation(args: Namespace, base: float) -> Rotary | None:
    """Build the rotation of RoPE or PoPE with this `base`; `None` if nothing is rotated or `base` is 0."""
    head_dim, polar = args.encoder_embed_dim // args.encoder_attention_heads, args.relative == "pope"
    if not base or not (args.rotary_dims or polar):
        return None
    assert not (args.rotary_dims and args.relative in ("shaw", "deberta", "pope")), "set rotary_dims=0 for this term"
    return Rotary(2 * head_dim, base=base) if polar else Rotary(head_dim, args.rotary_dims, base)


def build_segment_attention(args: Namespace) -> SegmentAttention | None:
    """Build the segment term of the attention, shared like the other terms; `None` if there is none."""
    if args.segment != "per_head":
        return None
    layers = 1 if args.sharing == "layer" else args.encoder_layers
    return SegmentAttention(num_position_heads(args) // layers, layers)
