"""Backward: the gradient of a dense bias, summed over the batch in registers."""

import triton
import triton.language as tl

from tupe.attention.kernels.bias import bias_tile, dense_tile
from tupe.attention.kernels.dropout import keep_mask
from tupe.attention.kernels.sequence import rows_of, share_of_batch
from tupe.attention.kernels.tile import (
    UNSPECIALIZED,
    load_lse,
    load_rows,
    multiply,
    tile_gradient,
    tile_logits,
)


@triton.jit(do_not_specialize=UNSPECIALIZED)
def bias_gradient_kernel(
    Q,
    K,
    V,
    BIAS,
    PADDING,
    SEED,
    STARTS,
    LENGTHS,
    ORDER,
    LSE,
    D_OUT,
    DELTA,
    D_BIAS,
    q_strides,
    k_strides,
    v_strides,
    bias_strides,
    d_bias_stride,
    B,
    H,
    T_q,
    T_k,
    scale,
    threshold,
    keep_probability,
    CAUSAL: tl.constexpr,
    EVEN_KEYS: tl.constexpr,
    D: tl.constexpr,
    BLOCK_D: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    """Write D_BIAS `(chunks, H, T_q, d_bias_stride)`, zeros beyond column T_k. Grid: (tiles x chunks of the batch, H).

    A program owns one tile: it reads the bias once, walks over the sequences of its chunk and writes the tile once.
    Tiles are on the first axis, because the others end at 65535. For a padded batch, LENGTHS holds the lengths up to
    the last key, descending, and ORDER their sequences; if both are None, a program walks over all sequences.
    """
    key_blocks = tl.cdiv(T_k, BLOCK_N)
    chunks = tl.num_programs(0) // (tl.cdiv(T_q, BLOCK_M) * key_blocks)
    chunk = tl.program_id(0) % chunks
    tile = tl.program_id(0) // chunks
    first_query = tile // key_blocks * BLOCK_M
    first_key = tile % key_blocks * BLOCK_N
    h = tl.program_id(1).to(tl.int64)
    first = first_key if STARTS is None else tl.maximum(first_query, first_key)
    start, end = share_of_batch(LENGTHS, first, B, chunk, chunks)
    if CAUSAL:  # noqa: SIM102 (known when compiled)
        if first_key > first_query + BLOCK_M - 1 + (T_k - T_q):
            end = start  # the whole tile is in the future
    query = tl.arange(0, BLOCK_M)[:, None]
    key = tl.arange(0, BLOCK_N)[None, :]
    padding = PADDING
    if SEED is not None:
        seed = tl.load(SEED)

    # If sequences have biases of their own, each chunk is one sequence.
    bias = BIAS + tl.cast(start, tl.int64) * bias_strides[0] + h * bias_strides[1]
    dense = dense_tile(bias, bias_strides, first_query, first_key, query, key, T_q, T_k)
    added = bias_tile(dense, None, None, None, None, first_query, first_key, query, key, T_q, T_k)
    d_bias = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for sequence in range(start, end):
        b = tl.cast(sequence, tl.int64)
        if ORDER is not None:
            b = tl.load(ORDER + sequence)
        place, query_row, key_row, queries, keys = rows_of(STARTS, b, T_q, T_k)
        if PADDING is not None:
            padding = PADDING + key_row
        q = load_rows(
            Q + place * q_strides[0] + h * q_strides[1], q_strides[2], first_query, queries, BLOCK_M, D, BLOCK_D
        )
        k = load_rows(K + place * k_strides[0] + h * k_strides[1], k_strides[2], first_key, keys, BLOCK_N, D, BLOCK_D)
        v = load_rows(V + place * v_strides[0] + h * v_strides[1], v_strides[2], first_key, keys, BLOCK_N, D, BLOCK_D)
        do = load_rows(D_OUT + (query_row * H + h) * D, H * D, first_query, queries, BLOCK_M, D, BLOCK_D)
        rows = query_row * H + h * queries
        row = first_query + tl.arange(0, BLOCK_M)
        lse = load_lse(LSE, rows, first_query, queries, BLOCK_M)
        delta = tl.load(DELTA + rows + row, mask=row < queries, other=0.0)
        product = multiply(q, tl.trans(k))
        d_weights = multiply(do, tl.trans(v))
        logits = tile_logits(
            product, added, scale, padding, first_query, first_key, query, key,
            queries, keys, CAUSAL, EVEN_KEYS,
        )  # fmt: skip
        keep = None
        if SEED is not None:
            keep = keep_mask(seed, b * H + h, first_query, first_key, query, key, T_q, threshold)
        _, d_bias = tile_gradient(logits, d_weights, lse[:, None], delta[:, None], keep_probability, keep, d_bias)

    query += first_query
    key += first_key
    row = (tl.cast(chunk, tl.int64) * H + h) * T_q + query
    values = d_bias.to(D_BIAS.dtype.element_ty)
    tl.store(D_BIAS + row * d_bias_stride + key, values, mask=(query < T_q) & (key < d_bias_stride))
