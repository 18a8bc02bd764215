"""Forward: the online softmax of FlashAttention (Dao 2023), one program for a block of queries of one head."""

import triton
import triton.language as tl

from tupe.attention.kernels.bias import bias_tile, dense_tile, in_second, segment_rows
from tupe.attention.kernels.dropout import keep_mask
from tupe.attention.kernels.sequence import end_of_keys, rows_of
from tupe.attention.kernels.tile import (
    LOG2E,
    UNSPECIALIZED,
    dropped_out,
    exp2,
    load_rows,
    multiply,
    store_rows,
    tile_logits,
)


@triton.jit(do_not_specialize=UNSPECIALIZED)
def forward_kernel(
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
    OUT,
    LSE,
    q_strides,
    k_strides,
    v_strides,
    bias_strides,
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
    """Write OUT `(B, T_q, H, D)` and LSE `(B, H, T_q)`. Grid: (B, blocks of queries, H).

    LSE is the log-sum-exp in base 2, minus the logarithm of dropout's scale; inf for a row without weights.

    The batch is the first axis of the grid, so that programs that run together read the same bias from the cache. For
    packed sequences OUT is `(N, H, D)`, and LSE is the LSE `(H, length)` of one sequence after the other.
    """
    b = tl.program_id(0).to(tl.int64)
    first_query = tl.program_id(1) * BLOCK_M
    h = tl.program_id(2).to(tl.int64)
    place, query_row, key_row, queries, keys = rows_of(STARTS, b, T_q, T_k)
    if STARTS is not None:  # noqa: SIM102 (known when compiled)
        if first_query >= queries:
            return
    Q += place * q_strides[0] + h * q_strides[1]
    K += place * k_strides[0] + h * k_strides[1]
    V += place * v_strides[0] + h * v_strides[1]
    padding = PADDING
    if PADDING is not None:
        padding = PADDING + key_row
    query = tl.arange(0, BLOCK_M)[:, None]
    key = tl.arange(0, BLOCK_N)[None, :]
    bias, relative, theta = BIAS, RELATIVE, THETA
    if BIAS is not None:
        bias = BIAS + b * bias_strides[0] + h * bias_strides[1]
    if POS_Q is not None:
        pos_q = load_rows(POS_Q + h * T_q * P, P, first_query, T_q, BLOCK_M, P, BLOCK_P)
    if RELATIVE is not None:
        relative = RELATIVE + h * (T_q + T_k - 1)
    if THETA is not None:
        theta = tl.load(THETA + h).to(tl.float32)
    if SEGMENT is not None:
        with_first, with_second = segment_rows(SEGMENT + 4 * h, SEGMENTS + query_row, first_query, query, queries)
    if SEED is not None:
        seed = tl.load(SEED)

    q = load_rows(Q, q_strides[2], first_query, queries, BLOCK_M, D, BLOCK_D)
    out = tl.zeros((BLOCK_M, BLOCK_D), tl.float32)
    total = tl.zeros((BLOCK_M,), tl.float32)
    highest = tl.full((BLOCK_M,), -1e38, tl.float32)  # finite: a row may start with keys of logit -inf
    end = end_of_keys(padding, keys)
    if CAUSAL:
        end = tl.minimum(end, tl.maximum(first_query + BLOCK_M + (T_k - T_q), 1))
    tl.assume(end > 0)
    for first_key in range(0, end, BLOCK_N):
        k = load_rows(K, k_strides[2], first_key, end, BLOCK_N, D, BLOCK_D)
        product = multiply(q, tl.trans(k))
        correlation = None
        if POS_K is not None:
            pos_k = load_rows(POS_K + h * T_k * P, P, first_key, T_k, BLOCK_N, P, BLOCK_P)
            correlation = multiply(pos_q, tl.trans(pos_k))
        dense = None
        if BIAS is not None:
            dense = dense_tile(bias, bias_strides, first_query, first_key, query, key, T_q, T_k)
        segment = None
        if SEGMENT is not None:
            second = in_second(SEGMENTS + key_row, first_key, key, keys)
            segment = tl.where(second, with_second, with_first)
        added = bias_tile(dense, correlation, relative, theta, segment, first_query, first_key, query, key, T_q, T_k)
        logits = tile_logits(
            product, added, scale, padding, first_query, first_key, query, key,
            queries, keys, CAUSAL, EVEN_KEYS,
        )  # fmt: skip
        new_highest = tl.maximum(highest, tl.max(logits, 1) * LOG2E)
        weights = exp2(logits * LOG2E - new_highest[:, None])
        shrink = exp2(highest - new_highest)
        total = total * shrink + tl.sum(weights, 1)
        out = out * shrink[:, None]
        highest = new_highest
        if SEED is not None:
            keep = keep_mask(seed, b * H + h, first_query, first_key, query, key, T_q, threshold)
            weights = dropped_out(weights, keep, keep_probability)
        v = load_rows(V, v_strides[2], first_key, end, BLOCK_N, D, BLOCK_D)
        out += multiply(weights.to(V.dtype.element_ty), v)

    total *= keep_probability  # in LSE too, so that backward's weights have dropout's scale
    total = tl.where(total > 0, total, float("inf"))  # all logits -inf, or all weights dropped: zero, not NaN
    out = out * (1 / total)[:, None]
    store_rows(OUT + (query_row * H + h) * D, H * D, out, first_query, queries, BLOCK_M, D, BLOCK_D)
    row = first_query + tl.arange(0, BLOCK_M)
    tl.store(LSE + query_row * H + h * queries + row, highest + tl.log2(total), mask=row < queries)
