"""The bias of a tile, read from the dense tensor or made from its parts."""

import triton
import triton.language as tl

ALIGNED_ROW = tl.constexpr(16)  # rows of a dense bias start at multiples of this and can be read up to the next one


@triton.jit
def dense_tile(bias, strides, first_query, first_key, query, key, T_q, T_k):
    """Load a tile, `(BLOCK_M, BLOCK_N)`, of the `(T_q, T_k)` matrix at `bias`."""
    row_end = tl.cdiv(T_k, ALIGNED_ROW) * ALIGNED_ROW  # whole vectors are read; numbers beyond T_k are not used
    inside = (first_query + query < T_q) & (first_key + key < row_end)
    pointers = bias + tl.cast(first_query, tl.int64) * strides[2] + tl.cast(first_key, tl.int64) * strides[3]
    return tl.load(pointers + query * strides[2] + key * strides[3], mask=inside, other=0.0)


@triton.jit
def segment_rows(segment, segments, first_query, query, T_q):
    """Load `E_S[s_i, 0]` and `E_S[s_i, 1]` for a tile's queries; `segment` points to the head's four values."""
    second = tl.load(segments + first_query + query, mask=first_query + query < T_q, other=0) != 0
    row = segment + tl.where(second, 2, 0)
    return tl.load(row).to(tl.float32), tl.load(row + 1).to(tl.float32)


@triton.jit
def in_second(segments, first_key, key, T_k):
    """Return which of a tile's keys are in segment 1; `segments` points to the segments of the sequence."""
    return tl.load(segments + first_key + key, mask=first_key + key < T_k, other=0) != 0


@triton.jit
def bias_tile(dense, correlation, relative, theta, segment, first_query, first_key, query, key, T_q, T_k):
    """Compute the bias of a tile, float32, from the parts that are not None; 0 if all are None.

    `dense` is the tile of the dense bias; `correlation` is the product of the factors' tiles; `relative` points to the
    head's `T_q + T_k - 1` values; `theta` is the scalar theta_2; `segment` is the tile of the segments' values. Row 0
    under a reset is left at 0: theta_1, the same for a whole row, changes no weight.
    """
    value = 0.0
    if dense is not None:
        value = dense.to(tl.float32)
    if correlation is not None:
        value = correlation
    if relative is not None:
        inside = (first_query + query < T_q) & (first_key + key < T_k)
        pointers = relative + (first_key - first_query + (T_q - 1)) + (key - query)
        value += tl.load(pointers, mask=inside, other=0.0).to(tl.float32)
    if theta is not None:
        value = tl.where(first_key + key == 0, theta, value)
        value = tl.where(first_query + query == 0, 0.0, value)
    if segment is not None:
        value += segment
    return value


@triton.jit
def correlated(gradient, first_query, first_key, query, key):
    """Return the `gradient` of a tile's bias, zero in the row and column of [CLS], which the reset overwrote."""
    return tl.where((first_query + query > 0) & (first_key + key > 0), gradient, 0.0)
