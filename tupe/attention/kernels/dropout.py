"""Dropout's mask as a function of (seed, matrix, query, key): recomputed in each kernel, never stored."""

import triton
import triton.language as tl

from tupe.attention.kernels.tile import INTERPRETED

ROUNDS = tl.constexpr(7)  # the fewest rounds with which Philox2x32 passes BigCrush


@triton.jit
def wide_product(x):
    """Return the lower and upper half of `x` times Philox's constant, in one instruction."""
    if INTERPRETED:
        product = x.to(tl.uint64) * 0xD256D193
        low, high = product.to(tl.uint32), (product >> 32).to(tl.uint32)
    else:
        low, high = tl.inline_asm_elementwise(
            "{ .reg .b64 product; mul.wide.u32 product, $2, 0xD256D193; mov.b64 {$0, $1}, product; }",
            "=r,=r,r", [x], (tl.uint32, tl.uint32), is_pure=True, pack=1,
        )  # fmt: skip
    return low, high


@triton.jit
def philox(key, c0, c1):
    """Philox2x32-7 (Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3"): two uint32 of random bits."""
    for _ in tl.static_range(ROUNDS):
        low, high = wide_product(c0)
        c1, c0 = low, high ^ key ^ c1
        key += 0x9E3779B9
    return c0, c1


@triton.jit
def keep_mask(seed, matrix, first_query, first_key, query, key, T_q, threshold):
    """Return which weights of a tile are kept: bool, of the shape that `query` and `key` broadcast to.

    `query` and `key` are indices within the tile, which starts at `first_query` and `first_key`, multiples of 16;
    `matrix` is the number of the `(T_q, T_k)` matrix. A weight is kept if its 16 random bits are at least `threshold`.

    One call of Philox makes the bits of four weights: queries `i`, `i + 8` with keys `j`, `j + 8`. The accumulators of
    the tensor cores hold these four in one thread's registers, also when the tile is transposed, so the compiler
    merges the thread's four calls into one.
    """
    row = (matrix * (tl.cdiv(T_q, 16) * 8) + first_query // 2).to(tl.uint32)
    row += ((query >> 4) * 8 + (query & 7)).to(tl.uint32)
    first_column = tl.cast(first_key // 2, tl.uint32) ^ (seed >> 32).to(tl.uint32)  # once per tile
    column = first_column ^ ((key >> 4) * 8 + (key & 7)).to(tl.uint32)  # adds: a tile starts at a multiple of its width
    upper, lower = philox((seed & 0xFFFFFFFF).to(tl.uint32), row, column)
    word = tl.where(query & 8 == 0, upper, lower)
    bits = tl.where(key & 8 == 0, word << 16, word)  # the upper half decides; extracting it would take longer
    return bits >= tl.cast(threshold, tl.uint32) << 16
