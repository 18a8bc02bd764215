"""What every kernel does with a tile: load rows, multiply, make the logits and, going back, their gradient.

A tile is `(BLOCK_M, BLOCK_N)`, queries by keys, or transposed. `query` and `key` are the indices of its cells within
it, `(BLOCK_M, 1)` and `(1, BLOCK_N)`, or `(1, BLOCK_M)` and `(BLOCK_N, 1)`; it starts at `first_query` and `first_key`.
"""

import triton
import triton.language as tl

INTERPRETED = tl.constexpr(bool(triton.knobs.runtime.interpret))
LOG2E = tl.constexpr(1.4426950408889634)

#: Arguments of which no value is compiled for: lengths change from batch to batch.
UNSPECIALIZED = ["B", "H", "T_q", "T_k", "threshold"]


@triton.jit
def multiply(a, b):
    """`a @ b` with a float32 sum; float32 operands are split in three for the tensor cores (error of about 1e-6)."""
    if INTERPRETED:  # Triton's interpreter multiplies the bits of bfloat16 numbers as integers
        a, b = a.to(tl.float32), b.to(tl.float32)
    return tl.dot(a, b, input_precision="tf32x3")


@triton.jit
def load_rows(pointer, stride, first, length, ROWS: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr):
    """Rows `first ..` of a `(length, WIDTH)` matrix as a `(ROWS, BLOCK)` tile, zero beyond its end and its width."""
    row = tl.arange(0, ROWS)[:, None]
    column = tl.arange(0, BLOCK)[None, :]
    inside = first + row < length
    if BLOCK != WIDTH:
        inside = inside & (column < WIDTH)
    return tl.load(pointer + tl.cast(first, tl.int64) * stride + row * stride + column, mask=inside, other=0.0)


@triton.jit
def store_rows(pointer, stride, values, first, length, ROWS: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr):
    """Writes a `(ROWS, BLOCK)` tile to rows `first ..` of a `(length, WIDTH)` matrix, rounded to its type."""
    row = tl.arange(0, ROWS)[:, None]
    column = tl.arange(0, BLOCK)[None, :]
    inside = first + row < length
    if BLOCK != WIDTH:
        inside = inside & (column < WIDTH)
    pointers = pointer + tl.cast(first, tl.int64) * stride + row * stride + column
    tl.store(pointers, values.to(pointer.dtype.element_ty), mask=inside)


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
    """Logits of a tile in base 2, float32: -inf where there is no key, and at padding.

    `product` is that of queries and keys; `bias` is in base 2 already; `padding` points to the sequence's row of the
    mask, or is None.
    """
    logits = product * (scale * LOG2E) + bias
    if padding is not None:
        inside = first_key + key < T_k
        logits = tl.where(tl.load(padding + first_key + key, mask=inside, other=0) != 0, -float("inf"), logits)
    if not EVEN_KEYS:
        logits = tl.where(first_key + key < T_k, logits, -float("inf"))
    if CAUSAL:
        logits = tl.where(first_key + key <= first_query + query + (T_k - T_q), logits, -float("inf"))
    return logits


@triton.jit
def tile_gradient(logits, d_weights, lse, delta, inverse_keep, keep):
    """The weights after dropout but for its scale, and the gradient of the logits; `keep` is dropout's mask or None.

    A row beyond the last has a log-sum-exp of inf, so that its weights are 0.
    """
    weights = tl.exp2(logits - lse)
    kept = weights
    if keep is not None:
        kept = tl.where(keep, weights, 0.0)
        d_weights = tl.where(keep, d_weights, 0.0)
    return kept, weights * (d_weights * inverse_keep - delta)
