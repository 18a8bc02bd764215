"""Positions in the attention from the target to the source (an option; none of the papers has it).

Languages share neither order nor length, so `j - i` is at best a soft diagonal. Both stacks encode order without it.
"""

from argparse import Namespace
from copy import deepcopy

from torch import Tensor

from tupe.encoder.build import num_position_heads
from tupe.models.seq2seq.stack import decoder_args
from tupe.position import BucketedRelative, LowRankAbsolute, PositionBias, PositionTable, UntiedAbsolute


def build_cross_position(args: Namespace) -> PositionBias:
    """Build `cross(i, j)` of target position `i` and source position `j`, shared as the decoder's other terms are.

    `diagonal` is T5's `b[bucket(j - i)]`, `low_rank` `P_Q[i] . P_K[j]` with a table for each side, and `untied`
    `(LN(p_i) U^Q)(LN(p'_j) U^K)^T / sqrt(2 d_h)`. If `cross_position` is `none`, it has no terms.
    """
    heads, width = num_position_heads(decoder_args(args)), args.encoder_embed_dim
    target, source = args.max_target_positions, args.max_source_positions
    if args.cross_position == "diagonal":
        return PositionBias(relative=BucketedRelative(heads, args.relative_buckets, args.relative_max_distance))
    if args.cross_position == "low_rank":
        return PositionBias(LowRankAbsolute(target, args.position_rank, heads, num_keys=source))
    if args.cross_position == "untied":
        untied = UntiedPair(
            target, source, width, heads, width // args.encoder_attention_heads,
            projection_bias=args.untied_projection_bias, layer_norm=not args.no_untied_layer_norm,
            layer_norm_eps=args.layer_norm_eps,
        )  # fmt: skip
        return PositionBias(untied)
    return PositionBias()


class UntiedPair(UntiedAbsolute):
    """Correlation of the positions of two sequences, such as a target and its source, with a table for each.

    `num_keys` is the number of rows of the keys' table; the other arguments are those of `UntiedAbsolute`.
    """

    def __init__(self, max_positions: int, num_keys: int, embed_dim: int, *others: int, **named: float) -> None:
        super().__init__(max_positions, embed_dim, *others, **named)
        self.num_keys = num_keys
        self.key_table = PositionTable(num_keys, embed_dim)
        self.key_layer_norm = deepcopy(self.layer_norm)

    def forward(self, length: int) -> tuple[Tensor, Tensor]:
        """Compute the factors of the first `length` queries, `(H, length, d_h)`, and of all keys."""
        query = self.query(self.layer_norm(self.table(length)))
        key = self.key(self.key_layer_norm(self.key_table.weight))
        return self.scale * self.in_heads(query), self.in_heads(key)
