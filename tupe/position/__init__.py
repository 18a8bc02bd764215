"""Position terms for any PyTorch attention. This package does not import fairseq.

A position encoding is a sum of small terms, one `H x n x n` bias for the whole batch, which all layers can share.
TUPE-R with 12 heads, width 768 and up to 512 positions::

    from tupe.attention import biased_attention
    from tupe.position import BucketedRelative, PositionBias, Reset, UntiedAbsolute

    position = PositionBias(
        UntiedAbsolute(max_positions=512, embed_dim=768, num_heads=12),
        BucketedRelative(num_heads=12, num_buckets=32, max_distance=128),
        Reset(num_heads=12, embed_dim=768),
    )
    bias = position(length=query.shape[2]).bias                      # (12, n, n), once per batch
    scale = position.scale(head_dim=64)                              # 1 / sqrt(2 d_h)
    out = biased_attention(query, key, value, bias, scale=scale)     # (B, 12, n, 64), in every layer

DIET-ABS for twelve layers that do not share their terms::

    position = PositionBias(LowRankAbsolute(max_positions=512, rank=128, num_heads=12 * 12))
    layers = position(length=query.shape[2]).split(12)               # layers[l].bias is (12, n, n)
"""

from tupe.position.absolute import PositionTable, UntiedAbsolute
from tupe.position.alibi import AlibiRelative
from tupe.position.bias import PositionBias
from tupe.position.deberta import DisentangledRelative, RelativeEmbeddings
from tupe.position.dual_triangle import DualTriangleRelative
from tupe.position.fire import FireRelative
from tupe.position.kerple import KerpleRelative
from tupe.position.length import check_length, fit_positions
from tupe.position.low_rank import FreeAbsolute, LowRankAbsolute
from tupe.position.pope import Phases, polar
from tupe.position.registry import register_absolute, register_relative
from tupe.position.relative import BucketedRelative, ClippedRelative, ParametricRelative, UnbinnedRelative
from tupe.position.reset import Reset, reset_cls
from tupe.position.rotary import Rotary, rotate
from tupe.position.segment import SegmentAttention, SegmentTable, segment_ids
from tupe.position.shaw import ShawRelative
from tupe.position.terms import Terms
