"""Backward, by rows: the gradients of the queries and of the parts of the bias but the keys' factor; also delta."""

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


@triton.jit
def along_diagonals(gradient, BLOCK: tl.constexpr):
    """Sum a square tile over its diagonals, for the distances `0 .. BLOCK-1` and for `-BLOCK .. -1`.

    Rolling row `i` by `i` turns the diagonals into columns, in which distances `d` and `d - BLOCK` share column `d`.
    """
    row = tl.arange(0, BLOCK)[:, None]
    column = tl.arange(0, BLOCK)[None, :]
    rolled = tl.gather(gradient, (row + column) % BLOCK, 1)
    right = row + column < BLOCK
    return tl.sum(tl.where(right, rolled, 0.0), 0), tl.sum(tl.where(right, 0.0, rolled), 0)


@triton.jit(do_not_specialize=UNSPECIALIZED)
def query_gradient_kernel(
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
    OUT,
    LSE,
    D_OUT,
    DELTA,
    D_Q,
    D_POS_Q,
    D_RELATIVE,
    D_THETA,
    D_SEGMENT,
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
    """Write D_Q `(B, T_q, H, D)` and DELTA `(B, H, T_q)`. Grid: (chunks of the batch, groups of blocks of queries, H).

    DELTA is the sum of `dO O` over each row, divided by dropout's scale.

    A program takes every `groups`-th block of queries, and for each block all sequences of its chunk. It alone writes
    its partial sums: D_POS_Q `(chunks, H, T_q, P)`, D_RELATIVE `(chunks * groups, H, T_q + T_k - 1)`, zeroed
    before, and D_THETA `(chunks * groups, H)`. D_SEGMENT `(B, T_q, H)` gets each row's sum over the keys of segment 1.
    For packed sequences, `N` replaces `B, T_q`, and DELTA has the layout of LSE in the forward kernel.
    """
    chunk = tl.program_id(0)
    group = tl.program_id(1)
    h = tl.program_id(2).to(tl.int64)
    partial = (chunk * tl.num_programs(1) + group).to(tl.int64) * H + h
    query = tl.arange(0, BLOCK_M)[:, None]
    key = tl.arange(0, BLOCK_N)[None, :]
    bias, relative, theta, padding = BIAS, RELATIVE, THETA, PADDING
    if RELATIVE is not None:
        relative = RELATIVE + h * (T_q + T_k - 1)
    if THETA is not None:
        theta = tl.load(THETA + h).to(tl.float32)
    if SEED is not None:
        seed = tl.load(SEED)
    if D_THETA is not None:
        d_theta = tl.zeros((BLOCK_M,), tl.float32)
    if D_RELATIVE is not None:
        tl.static_assert(BLOCK_M == BLOCK_N, "the sums over diagonals need square tiles")

    for first_query in range(group * BLOCK_M, T_q, tl.num_programs(1) * BLOCK_M):
        if POS_Q is not None:
            pos_q = load_rows(POS_Q + h * T_q * P, P, first_query, T_q, BLOCK_M, P, BLOCK_P)
        if D_POS_Q is not None:
            d_pos_q = tl.zeros((BLOCK_M, BLOCK_P), tl.float32)
        start, stop = share_of_batch(LENGTHS, first_query, B, chunk, tl.num_programs(0))
        for sequence in range(start, stop):
            b = tl.cast(sequence, tl.int64)
            place, query_row, key_row, queries, keys = rows_of(STARTS, b, T_q, T_k)
            if BIAS is not None:
                bias = BIAS + b * bias_strides[0] + h * bias_strides[1]
            if PADDING is not None:
                padding = PADDING + key_row
            if SEGMENT is not None:
                with_first, with_second = segment_rows(
                    SEGMENT + 4 * h, SEGMENTS + query_row, first_query, query, queries
                )
            q_rows = Q + place * q_strides[0] + h * q_strides[1]
            k_rows = K + place * k_strides[0] + h * k_strides[1]
            v_rows = V + place * v_strides[0] + h * v_strides[1]
            q = load_rows(q_rows, q_strides[2], first_query, queries, BLOCK_M, D, BLOCK_D)
            out_start = (query_row * H + h) * D
            out = load_rows(OUT + out_start, H * D, first_query, queries, BLOCK_M, D, BLOCK_D)
            do = load_rows(D_OUT + out_start, H * D, first_query, queries, BLOCK_M, D, BLOCK_D)
            rows = query_row * H + h * queries
            row = first_query + tl.arange(0, BLOCK_M)
            lse = load_lse(LSE, rows, first_query, queries, BLOCK_M)
            delta = tl.sum(out.to(tl.float32) * do.to(tl.float32), 1) * keep_probability
            tl.store(DELTA + rows + row, delta, mask=row < queries)

            dq = tl.zeros((BLOCK_M, BLOCK_D), tl.float32)
            if D_SEGMENT is not None:
                d_segment = tl.zeros((BLOCK_M,), tl.float32)
            if D_RELATIVE is not None:
                carried = tl.zeros((BLOCK_N,), tl.float32)
                tl.debug_barrier()  # this thread then reads other threads' sums of the last sequence
            end = end_of_keys(padding, keys)
            if CAUSAL:
                end = tl.minimum(end, first_query + BLOCK_M + (T_k - T_q))
            end = tl.maximum(end, 1)
            tl.assume(end > 0)
            for first_key in range(0, end, BLOCK_N):
                k = load_rows(k_rows, k_strides[2], first_key, end, BLOCK_N, D, BLOCK_D)
                v = load_rows(v_rows, v_strides[2], first_key, end, BLOCK_N, D, BLOCK_D)
                product = multiply(q, tl.trans(k))
                correlation = None
                if POS_K is not None:
                    pos_k = load_rows(POS_K + h * T_k * P, P, first_key, T_k, BLOCK_N, P, BLOCK_P)
                    correlation = multiply(pos_q, tl.trans(pos_k))
                d_weights = multiply(do, tl.trans(v))
                dense = None
                if BIAS is not None:
                    dense = dense_tile(bias, bias_strides, first_query, first_key, query, key, T_q, T_k)
                segment = None
                if SEGMENT is not None:
                    second = in_second(SEGMENTS + key_row, first_key, key, keys)
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
                _, ds = tile_gradient(logits, d_weights, lse[:, None], delta[:, None], keep_probability, keep)
                dq += multiply(ds.to(K.dtype.element_ty), k)
                if D_THETA is not None:  # noqa: SIM102 (known when compiled)
                    if first_key == 0:
                        d_theta += tl.sum(tl.where((first_query + query > 0) & (key == 0), ds, 0.0), 1)
                if D_SEGMENT is not None:
                    d_segment += tl.sum(tl.where(second, ds, 0.0), 1)
                if THETA is not None:
                    ds = correlated(ds, first_query, first_key, query, key)
                if D_POS_Q is not None:
                    d_pos_q += multiply(ds.to(K.dtype.element_ty), pos_k)
                if D_RELATIVE is not None:
                    right, left = along_diagonals(ds, BLOCK_N)
                    add_distances(
                        D_RELATIVE, partial, carried + left, first_key - first_query - BLOCK_N, T_q, T_k, BLOCK_N
                    )
                    carried = right
            if D_RELATIVE is not None:
                last = tl.cdiv(end, BLOCK_N) * BLOCK_N - first_query - BLOCK_N
                add_distances(D_RELATIVE, partial, carried, last, T_q, T_k, BLOCK_N)
            if D_SEGMENT is not None:
                tl.store(D_SEGMENT + (query_row + row) * H + h, d_segment, mask=row < queries)
            store_rows(D_Q + out_start, H * D, dq * scale, first_query, queries, BLOCK_M, D, BLOCK_D)
        if D_POS_Q is not None:
            pos_start = (tl.cast(chunk, tl.int64) * H + h) * T_q * P
            store_rows(D_POS_Q + pos_start, P, d_pos_q, first_query, T_q, BLOCK_M, P, BLOCK_P)
    if D_THETA is not None:
        tl.store(D_THETA + partial, tl.sum(d_theta, 0))


@triton.jit
def add_distances(D_RELATIVE, partial, values, first_distance, T_q, T_k, BLOCK: tl.constexpr):
    """Add the sums over the diagonals of `BLOCK` distances to the program's own vector.

    The distances in one row of tiles differ, so threads must synchronize only between rows.
    """
    index = first_distance + (T_q - 1) + tl.arange(0, BLOCK)
    inside = (index >= 0) & (index < T_q + T_k - 1)
    pointers = D_RELATIVE + partial * (T_q + T_k - 1) + index
    tl.store(pointers, tl.load(pointers, mask=inside, other=0.0) + values, mask=inside)
