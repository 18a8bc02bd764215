"""Positions in the attention from the target to the source (an option; none of the papers has it).

Two languages share neither order nor length, so `j - i` is at best a soft diagonal; both stacks know order without it.
"""

from argparse import Namespace

from tupe.encoder.build import sets_of_parameters
from tupe.models.seq2seq.config import decoder_args
from tupe.position import BucketedRelative, LowRankAbsolute, PositionBias, UntiedPair


def build_cross_position(args: Namespace) -> PositionBias:
    """Build `cross(i, j)` of target position `i` and source position `j`, shared as the decoder's other terms are.

    `diagonal` is T5's `b[bucket(j - i)]`, `low_rank` `P_Q[i] . P_K[j]` with a table for each side, and `untied`
    `(LN(p_i) U^Q)(LN(p'_j) U^K)^T / sqrt(2 d_h)`. Without `cross_position` it has no terms.
    """
    sets, width = sets_of_parameters(decoder_args(args)), args.encoder_embed_dim
    target, source = args.max_target_positions, args.max_source_positions
    if args.cross_position == "diagonal":
        return PositionBias(relative=BucketedRelative(sets, args.relative_buckets, args.relative_max_distance))
    if args.cross_position == "low_rank":
        return PositionBias(LowRankAbsolute(target, args.position_rank, sets, num_keys=source))
    if args.cross_position == "untied":
        untied = UntiedPair(
            target, source, width, sets, width // args.encoder_attention_heads,
            projection_bias=args.untied_projection_bias, layer_norm=not args.no_untied_layer_norm,
            layer_norm_eps=args.layer_norm_eps,
        )  # fmt: skip
        return PositionBias(untied)
    return PositionBias()
