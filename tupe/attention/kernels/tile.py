"""Operations of every kernel on a tile: load rows, multiply, compute the logits and, in backward, their gradient.

A tile is `(BLOCK_M, BLOCK_N)`, queries by keys, or transposed, and starts at `first_query` and `first_key`. `query` and
`key` are its cells' indices from this start, `(BLOCK_M, 1)` and `(1, BLOCK_N)`, or `(1, BLOCK_M)` and `(BLOCK_N, 1)`.
"""

import triton
import triton.language as tl
from triton.language.extra import libdevice

INTERPRETED = tl.constexpr(bool(triton.knobs.runtime.interpret))
LOG2E = tl.constexpr(1.4426950408889634)

#: Arguments that kernels are not specialized for, because lengths change from batch to batch.
UNSPECIALIZED = ["B", "H", "T_q", "T_k", "threshold"]


@triton.jit
def multiply(a, b):
    """`a @ b` with a float32 sum; float32 operands are split in three for the tensor cores (error of about 1e-6)."""
    if INTERPRETED:  # Triton's interpreter multiplies the bits of bfloat16 numbers as integers
        a, b = a.to(tl.float32), b.to(tl.float32)
    return tl.dot(a, b, input_precision="tf32x3")


@triton.jit
def exp2(x):
    """Compute `2^x` in one instruction; results below 2^-126 are 0. (`tl.exp2` takes three more for such numbers.)"""
    if INTERPRETED:
        power = tl.exp2(x)
    else:
        power = libdevice.exp2(x)
    return power


@triton.jit
def load_rows(pointer, stride, first, length, ROWS: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr):
    """Load rows `first ..` of a `(length, WIDTH)` matrix as a `(ROWS, BLOCK)` tile, zero beyond its end and width."""
    row = tl.arange(0, ROWS)[:, None]
    column = tl.arange(0, BLOCK)[None, :]
    inside = first + row < length
    if BLOCK != WIDTH:
        inside = inside & (column < WIDTH)
    return tl.load(pointer + tl.cast(first, tl.int64) * stride + row * stride + column, mask=inside, other=0.0)


@triton.jit
def store_rows(pointer, stride, values, first, length, ROWS: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr):
    """Write a `(ROWS, BLOCK)` tile to rows `first ..` of a `(length, WIDTH)` matrix, rounded to its type."""
    row = tl.arange(0, ROWS)[:, None]
    column = tl.arange(0, BLOCK)[None, :]
    inside = first + row < length
    if BLOCK != WIDTH:
        inside = inside & (column < WIDTH)
    pointers = pointer + tl.cast(first, tl.int64) * stride + row * stride + column
    tl.store(pointers, values.to(pointer.dtype.element_ty), mask=inside)


@triton.jit
def hide(logits, padding, first_key, key, T_k):
    """Return `logits` with -inf beyond the last key and at padding."""
    seen = first_key + key < T_k
    if padding is not None:
        seen = tl.load(padding + first_key + key, mask=seen, other=1) == 0
    return tl.where(seen, logits, -float("inf"))


@triton.jit
def tile_logits(
    product,
    bias,
    scale,
    padding,
    first_query,
    first_key,
    query,
    key,
    T_q,
    T_k,
    CAUSAL: tl.constexpr,
    EVEN_KEYS: tl.constexpr,
):
    """Return the logits of a tile, float32: -inf beyond the last key, at padding and, if CAUSAL, in the future.

    `product` is the tile of `q k^T`; `padding` points to the sequence's row of the mask, or is None.
    """
    logits = product * scale + bias
    if padding is not None or not EVEN_KEYS:
        logits = hide(logits, padding, first_key, key, T_k)
    if CAUSAL:
        logits = tl.where(first_key + key <= first_query + query + (T_k - T_q), logits, -float("inf"))
    return logits


@triton.jit
def dropped_out(weights, keep, keep_probability):
    """Return `weights`, 0 where dropped. With a constant 0 the compiler would round first and select 16-bit numbers."""
    return tl.where(keep, weights, keep_probability * 0.0)


@triton.jit
def load_lse(LSE, rows, first_query, queries, BLOCK_M: tl.constexpr):
    """Load the log-sum-exp of `BLOCK_M` queries of the sequence whose first query is at `rows`.

    Beyond the last query it is inf, which makes weights of 0.
    """
    row = first_query + tl.arange(0, BLOCK_M)
    return tl.load(LSE + rows + row, mask=row < queries, other=float("inf"))


@triton.jit
def tile_gradient(logits, d_weights, lse, delta, keep_probability, keep, total=0.0):
    """Return the weights after dropout, and `total` plus the logits' gradient; `keep` is dropout's mask or None.

    `lse` and `delta` include dropout's scale, as `forward_kernel` and `query_gradient_kernel` write them, so that
    only the first of the gradient's two terms is masked.
    """
    weights = exp2(logits * LOG2E - lse)
    if keep is None:
        kept, gradient = weights, weights * (d_weights - delta) + total
    else:  # an early `return` does not help: Triton compiles the code after it too
        kept = dropped_out(weights, keep, keep_probability)
        gradient = kept * d_weights + (total - weights * delta)
    return kept, gradient
