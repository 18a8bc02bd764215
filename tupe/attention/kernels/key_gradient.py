"""Backward, by columns: the gradients of the keys, of the values and of the keys' factor of the bias."""

import triton
import triton.language as tl

from tupe.attention.kernels.bias import bias_tile, correlated, dense_tile, in_second, segment_rows
from tupe.attention.kernels.dropout import keep_mask
from tupe.attention.kernels.sequence import end_of_keys, rows_of, share_of_batch
from tupe.attention.kernels.tile import (
    UNSPECIALIZED,
    load_lse,
    load_rows,
    multiply,
    store_rows,
    tile_gradient,
    tile_logits,
)


@triton.jit(do_not_specialize=UNSPECIALIZED)
def key_gradient_kernel(
    Q,
    K,
    V,
    BIAS,
    POS_Q,
    POS_K,
    RELATIVE,
    THETA,
    SEGMENT,
    SEGMENTS,
    PADDING,
    SEED,
    STARTS,
    LENGTHS,
    LSE,
    D_OUT,
    DELTA,
    D_K,
    D_V,
    D_POS_K,
    q_strides,
    k_strides,
    v_strides,
    bias_strides,
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
    P: tl.constexpr,
    BLOCK_P: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    """Write D_K, D_V `(B, T_k, H, D)`. Grid: (chunks of the batch, blocks of keys, H).

    A program takes all sequences of its chunk, and alone writes the sum over them, D_POS_K `(chunks, H, T_k, P)`. Its
    tiles are transposed, keys by queries, so that they stay in registers as left factors of the products over queries.
    For packed sequences, D_K and D_V are `(N, H, D)`.
    """
    chunk = tl.program_id(0)
    first_key = tl.program_id(1) * BLOCK_N
    h = tl.program_id(2).to(tl.int64)
    query = tl.arange(0, BLOCK_M)[None, :]
    key = tl.arange(0, BLOCK_N)[:, None]
    bias, relative, theta, padding = BIAS, RELATIVE, THETA, PADDING
    if POS_K is not None:
        pos_k = load_rows(POS_K + h * T_k * P, P, first_key, T_k, BLOCK_N, P, BLOCK_P)
    if RELATIVE is not None:
        relative = RELATIVE + h * (T_q + T_k - 1)
    if THETA is not None:
        theta = tl.load(THETA + h).to(tl.float32)
    if SEED is not None:
        seed = tl.load(SEED)
    if D_POS_K is not None:
        d_pos_k = tl.zeros((BLOCK_N, BLOCK_P), tl.float32)
    begin = 0
    if CAUSAL:
        begin = tl.maximum(0, first_key - (T_k - T_q)) // BLOCK_M * BLOCK_M

    start, end = share_of_batch(LENGTHS, first_key, B, chunk, tl.num_programs(0))
    for sequence in range(start, end):
        b = tl.cast(sequence, tl.int64)
        place, query_row, key_row, queries, keys = rows_of(STARTS, b, T_q, T_k)
        if BIAS is not None:
            bias = BIAS + b * bias_strides[0] + h * bias_strides[1]
        if PADDING is not None:
            padding = PADDING + key_row
        if SEGMENT is not None:
            second = in_second(SEGMENTS + key_row, first_key, key, keys)
        q_rows = Q + place * q_strides[0] + h * q_strides[1]
        end_key = end_of_keys(padding, keys)
        k = load_rows(
            K + place * k_strides[0] + h * k_strides[1], k_strides[2], first_key, end_key, BLOCK_N, D, BLOCK_D
        )
        v = load_rows(
            V + place * v_strides[0] + h * v_strides[1], v_strides[2], first_key, end_key, BLOCK_N, D, BLOCK_D
        )
        dk = tl.zeros((BLOCK_N, BLOCK_D), tl.float32)
        dv = tl.zeros((BLOCK_N, BLOCK_D), tl.float32)
        last = tl.where(first_key < end_key, queries, begin + 1)  # if all keys are padding, one tile of zero weights
        tl.assume(begin < last)
        for first_query in range(begin, last, BLOCK_M):
            q = load_rows(q_rows, q_strides[2], first_query, queries, BLOCK_M, D, BLOCK_D)
            do = load_rows(D_OUT + (query_row * H + h) * D, H * D, first_query, queries, BLOCK_M, D, BLOCK_D)
            rows = query_row * H + h * queries
            row = first_query + tl.arange(0, BLOCK_M)
            lse = load_lse(LSE, rows, first_query, queries, BLOCK_M)
            delta = tl.load(DELTA + rows + row, mask=row < queries, other=0.0)
            product = multiply(k, tl.trans(q))
            correlation = None
            if POS_Q is not None:
                pos_q = load_rows(POS_Q + h * T_q * P, P, first_query, T_q, BLOCK_M, P, BLOCK_P)
                correlation = multiply(pos_k, tl.trans(pos_q))
            dense = None
            if BIAS is not None:
                dense = dense_tile(bias, bias_strides, first_query, first_key, query, key, T_q, T_k)
            segment = None
            if SEGMENT is not None:
                with_first, with_second = segment_rows(
                    SEGMENT + 4 * h, SEGMENTS + query_row, first_query, query, queries
                )
                segment = tl.where(second, with_second, with_first)
            added = bias_tile(
                dense, correlation, relative, theta, segment, first_query, first_key, query, key, T_q, T_k
            )
            logits = tile_logits(
                product, added, scale, padding, first_query, first_key, query, key,
                queries, keys, CAUSAL, EVEN_KEYS,
            )  # fmt: skip
            keep = None
            if SEED is not None:
                keep = keep_mask(seed, b * H + h, first_query, first_key, query, key, T_q, threshold)
            d_weights = multiply(v, tl.trans(do))
            kept, ds = tile_gradient(logits, d_weights, lse[None, :], delta[None, :], keep_probability, keep)
            dv += multiply(kept.to(V.dtype.element_ty), do)
            dk += multiply(ds.to(Q.dtype.element_ty), q)
            if D_POS_K is not None:
                if THETA is not None:
                    ds = correlated(ds, first_query, first_key, query, key)
                d_pos_k += multiply(ds.to(Q.dtype.element_ty), pos_q)
        out_start = (key_row * H + h) * D
        store_rows(D_K + out_start, H * D, dk * scale, first_key, keys, BLOCK_N, D, BLOCK_D)
        store_rows(D_V + out_start, H * D, dv, first_key, keys, BLOCK_N, D, BLOCK_D)
    if D_POS_K is not None:
        start = (tl.cast(chunk, tl.int64) * H + h) * T_k * P
        store_rows(D_POS_K + start, P, d_pos_k, first_key, T_k, BLOCK_N, P, BLOCK_P)
